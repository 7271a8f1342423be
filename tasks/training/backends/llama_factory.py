"""LLaMA-Factory, 0.9.5: SFT by its own trainer, on our ids.

It gets ids (`tokenized_path`) and uses no template: its own template writes other ids, and with the
base's it trains the line break after each turn and writes tools its own way (docs/backends.md).
"""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tutti.tasks.training.backends.base import (
    OUTPUT,
    BackendJob,
    SetBackend,
    json_lines,
    named,
)

CONFIG = "llama-factory.yaml"
NAMES = {"step": "current_steps", "loss": "loss", "learning_rate": "lr", "tokens": "total_tokens"}
NAMES |= {"tokens_per_s": "throughput"}


def refuse(plan: BackendJob) -> list[str]:
    """Return the fields of a job that Hugging Face's trainers do not support."""
    optimizer = plan.job.optimizer
    if optimizer.schedule == "linear" and optimizer.final_share:
        return ["optimizer.final_share: 0 only, with `schedule: linear`"]
    return []


def write(plan: BackendJob, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Return the YAML configuration; the launch's first command writes the ids."""
    text = yaml.safe_dump(dict(settings), sort_keys=False)
    tokenise = shlex.join(plan.tokenise_command("labels"))
    train = f"llamafactory-cli train {shlex.quote(str(plan.folder / CONFIG))}"
    return text, f"python {tokenise}\n{train}\n"


def read_steps(folder: Path) -> list[dict[str, Any]]:
    """Return rows of `trainer_log.jsonl`, whose last line has no loss; at the end
    `trainer_state.json` also has the gradients."""
    state = folder / OUTPUT / "trainer_state.json"
    history = json.loads(state.read_text())["log_history"] if state.is_file() else []
    norms = {row["step"]: row["grad_norm"] for row in history if "grad_norm" in row}
    rows = [named(row, NAMES) for row in json_lines(folder / OUTPUT / "trainer_log.jsonl")]
    return [row | {"gradient_norm": norms.get(row["step"])} for row in rows if "loss" in row]


BACKEND = SetBackend(
    name="llama-factory",
    schema="llama-factory",
    config_file=CONFIG,
    write=write,
    refuse=refuse,
    read_steps=read_steps,
    runs_here=True,
)
