"""TRL's SFTTrainer, 1.16, in the models environment, on our ids."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tutti.tasks.training.backends.base import (
    BESIDE,
    LAUNCHER,
    OUTPUT,
    BackendJob,
    SetBackend,
    json_lines,
    named,
)
from tutti.tasks.training.backends.llama_factory import refuse

CONFIG = "trl.json"
NAMES = {"step": "step", "loss": "loss", "learning_rate": "learning_rate"}
NAMES |= {"tokens": "num_tokens", "gradient_norm": "grad_norm", "entropy": "entropy"}
NAMES |= {"token_accuracy": "mean_token_accuracy"}


def write(plan: BackendJob, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Return the configuration; the launch's first command writes the ids."""
    lora = None if plan.job.lora is None else plan.job.lora.model_dump(mode="json")
    config = {"base": str(plan.base), "data": str(plan.folder / "tokens"), "lora": lora}
    config["config"] = dict(settings)
    run = shlex.join(["-P", str(LAUNCHER), BESIDE, "trl", "--config", str(plan.folder / CONFIG)])
    return json.dumps(config, indent=1) + "\n", (
        f"python {shlex.join(plan.tokenise_command('mask'))}\n"
        f'torchrun --standalone --nproc_per_node "${{GPUS:-1}}" --no-python python {run}\n'
    )


def read_steps(folder: Path) -> list[dict[str, Any]]:
    """Rows of the log that `trainer/beside.py` writes, with the tokens per second between them."""
    rows, before = [], {"num_tokens": 0, "elapsed_s": 0.0}
    for row in json_lines(folder / OUTPUT / "trainer_log.jsonl"):
        if "loss" not in row:
            continue
        seconds = row["elapsed_s"] - before["elapsed_s"]
        speed = (row["num_tokens"] - before["num_tokens"]) / seconds if seconds > 0 else None
        rows.append(named(row, NAMES) | {"seconds": seconds, "tokens_per_s": speed})
        before = row
    return rows


BACKEND = SetBackend(
    name="trl",
    schema="trl",
    config_file=CONFIG,
    write=write,
    refuse=refuse,
    read_steps=read_steps,
    runs_here=True,
)
