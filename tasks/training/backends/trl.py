"""TRL's SFTTrainer, 1.16, in the models environment, on our ids."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tutti.tasks.training.backends.base import (
    LAUNCHER,
    OUTPUT,
    Backend,
    BackendJob,
    json_lines,
    named,
    tokenise_command,
)
from tutti.tasks.training.backends.llama_factory import optimizer

CONFIG = "trl.json"
RUN = "tutti.tasks.training.trainer.trl_sft"
NAMES = {"step": "step", "loss": "loss", "learning_rate": "learning_rate"}
NAMES |= {"tokens": "num_tokens", "gradient_norm": "grad_norm", "entropy": "entropy"}
NAMES |= {"token_accuracy": "mean_token_accuracy"}


def configuration(plan: BackendJob) -> dict[str, Any]:
    """The fields of SFTConfig. Raises BackendRefused."""
    job = plan.job
    return {
        "output_dir": str(plan.folder / OUTPUT),
        "max_steps": plan.steps,
        "per_device_train_batch_size": job.batch.sequences,
        **optimizer(plan),
        "bf16": plan.is_half,
        "gradient_checkpointing": job.gradient_checkpointing,
        "seed": job.seed,
        "data_seed": job.seed,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "completion_only_loss": True,
        "max_length": None,  # longer sequences are left out before
        "disable_tqdm": True,
    }


def write(plan: BackendJob, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Its configuration; the ids are written by the first command."""
    lora = None if plan.job.lora is None else plan.job.lora.model_dump(mode="json")
    whole = {"base": str(plan.base), "data": str(plan.folder / "tokens"), "lora": lora}
    text = json.dumps(whole | {"config": dict(settings)}, indent=1)
    run = ["-P", str(LAUNCHER), RUN, str(plan.folder / CONFIG)]
    launch = 'torchrun --standalone --nproc_per_node "${GPUS:-1}" --no-python python'
    return (
        text + "\n",
        f"python {shlex.join(tokenise_command(plan, 'mask'))}\n{launch} {shlex.join(run)}\n",
    )


def read_steps(folder: Path) -> list[dict[str, Any]]:
    """Rows of the log that `trl_sft` writes, with tokens per second between them."""
    found, before = [], {"num_tokens": 0, "elapsed_s": 0.0}
    for row in json_lines(folder / OUTPUT / "trainer_log.jsonl"):
        if "loss" not in row:
            continue
        seconds = row["elapsed_s"] - before["elapsed_s"]
        speed = (row["num_tokens"] - before["num_tokens"]) / seconds if seconds > 0 else None
        found.append(named(row, NAMES) | {"seconds": seconds, "tokens_per_s": speed})
        before = row
    return found


BACKEND = Backend("trl", configuration, write, CONFIG, read_steps, runs_here=True)
