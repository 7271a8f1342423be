"""NeMo-RL, SFT (`examples/run_sft.py`), on conversations.

Overrides over its examples/configs/sft.yaml. Its own configuration lets unknown names pass, so
ours are checked against the list in `keys/`. Its metrics go to its console.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tutti.tasks.training.backends.base import (
    OUTPUT,
    Backend,
    BackendJob,
    BackendRefused,
    overrides,
)

CONFIG = "overrides.txt"
LOG = "console.log"
STEP = re.compile(r"^=+ Step (\d+)/\d+ =+$")
LOSS = re.compile(r"^\s*• Loss: (\S+)$")
SECONDS = re.compile(r"^\s*• Total step time: ([\d.]+)s$")


def configuration(plan: BackendJob) -> dict[str, Any]:
    """Settings over its sft.yaml. Raises BackendRefused."""
    job, asked = plan.job, plan.job.optimizer
    if asked.schedule != "constant" or plan.warmup_steps:
        raise BackendRefused(
            "optimizer.schedule: nemo-rl is written with `schedule: constant`, `warmup_share: 0`; "
            "give another as backend_settings.policy.scheduler"
        )
    kwargs = {"lr": asked.learning_rate, "weight_decay": asked.weight_decay}
    policy: dict[str, Any] = {
        "model_name": str(plan.base),
        "tokenizer": {"name": str(plan.base), "chat_template": None},
        "train_global_batch_size": job.batch.sequences,
        "max_total_sequence_length": plan.max_tokens,
        "precision": "bfloat16" if plan.is_half else "float32",
        "max_grad_norm": asked.gradient_clip,
        "optimizer": {"kwargs": {**kwargs, "betas": list(asked.betas)}},
        "dtensor_cfg": {"activation_checkpointing": job.gradient_checkpointing},
    }
    if job.lora is not None:
        lora: dict[str, Any] = {"enabled": True, "match_all_linear": False, "dim": job.lora.rank}
        lora |= {"target_modules": list(job.lora.targets)}
        lora["alpha"] = int(job.lora.alpha or 2 * job.lora.rank)
        policy["dtensor_cfg"]["lora_cfg"] = lora
    train = {"dataset_name": "openai_format"}
    train["data_path"] = str(plan.folder / "data" / "train.jsonl")
    held_out = "train" if plan.training_set.held_out is None else "held_out"
    validation = train | {"data_path": str(plan.folder / "data" / f"{held_out}.jsonl")}
    return {
        "sft": {"max_num_steps": plan.steps, "max_num_epochs": 1_000_000, "seed": job.seed},
        "policy": policy,
        "data": {"add_bos": False, "add_eos": False, "train": train, "validation": validation},
        "checkpointing": {"checkpoint_dir": str(plan.folder / OUTPUT)},
        "logger": {"log_dir": str(plan.folder / "logs"), "wandb_enabled": False},
    }


def write(plan: BackendJob, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Its overrides; the launch runs in its checkout, named by NEMO_RL."""
    return overrides(settings, "++"), (
        f"mapfile -t OVERRIDES < {CONFIG}\n"
        f'LOG="$PWD/{LOG}"\n'
        'cd "${NEMO_RL:?names its checkout}"\n'
        'uv run examples/run_sft.py --config examples/configs/sft.yaml "${OVERRIDES[@]}" \\\n'
        '  ++cluster.gpus_per_node="${GPUS:-1}" 2>&1 | tee "$LOG"\n'
    )


def read_steps(folder: Path) -> list[dict[str, Any]]:
    """Rows of what it printed. Steps begin anew in each epoch and are numbered on."""
    rows: list[dict[str, Any]] = []
    log = folder / LOG
    for line in log.read_text(errors="replace").splitlines() if log.is_file() else ():
        if STEP.match(line):
            rows.append({"step": len(rows) + 1})
        elif rows and (found := LOSS.match(line)):
            rows[-1].setdefault("loss", float(found[1]))
        elif rows and (found := SECONDS.match(line)):
            rows[-1].setdefault("seconds", float(found[1]))
    return [row for row in rows if "loss" in row]


BACKEND = Backend("nemo-rl", configuration, write, CONFIG, read_steps, "openai")
