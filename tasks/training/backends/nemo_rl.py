"""NeMo-RL, SFT (`examples/run_sft.py`), on conversations.

Our settings are overrides of its examples/configs/sft.yaml. It accepts unknown names, so ours are
checked against the list in `keys/`. Its metrics go to its console.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tutti.tasks.training.backends.base import (
    BackendJob,
    SetBackend,
    overrides,
)

CONFIG = "overrides.txt"
LOG = "console.log"
STEP = re.compile(r"^=+ Step (\d+)/\d+ =+$")
FIGURES = {"loss": re.compile(r"^\s*• Loss: (\S+)$")}
FIGURES |= {"seconds": re.compile(r"^\s*• Total step time: ([\d.]+)s$")}


def refuse(plan: BackendJob) -> list[str]:
    """Return the fields of a job that NeMo-RL does not support."""
    if plan.job.optimizer.schedule == "constant" and not plan.warmup_steps:
        return []
    return [
        "optimizer.schedule: nemo-rl is written with `schedule: constant`, `warmup_share: 0`; "
        "give another as backend_settings.policy.scheduler"
    ]


def write(plan: BackendJob, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Return the overrides; the launch runs in the NeMo-RL checkout that NEMO_RL names."""
    return overrides(settings, "++"), (
        f"mapfile -t OVERRIDES < {CONFIG}\n"
        f'LOG="$PWD/{LOG}"\n'
        'cd "${NEMO_RL:?names its checkout}"\n'
        'uv run examples/run_sft.py --config examples/configs/sft.yaml "${OVERRIDES[@]}" \\\n'
        '  ++cluster.gpus_per_node="${GPUS:-1}" 2>&1 | tee "$LOG"\n'
    )


def read_steps(folder: Path) -> list[dict[str, Any]]:
    """Rows of the console log. Steps restart in each epoch and are numbered consecutively here."""
    rows: list[dict[str, Any]] = []
    log = folder / LOG
    for line in log.read_text(errors="replace").splitlines() if log.is_file() else ():
        if STEP.match(line):
            rows.append({"step": len(rows) + 1})
        for name, pattern in FIGURES.items():
            if rows and (figure := pattern.match(line)):
                rows[-1].setdefault(name, float(figure[1]))
    return [row for row in rows if "loss" in row]


BACKEND = SetBackend(
    name="nemo-rl",
    schema="nemo-rl",
    config_file=CONFIG,
    write=write,
    refuse=refuse,
    read_steps=read_steps,
    data_format="openai",
)
