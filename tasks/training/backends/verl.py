"""verl, 0.9.1: SFT by its FSDP engine, on conversations.

Its dataset writes each message with the base's chat template. Overrides are given to Hydra on the
command line, because Hydra refuses unknown names there only.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tutti.tasks.training.backends.base import (
    OUTPUT,
    Backend,
    BackendJob,
    BackendRefused,
    json_lines,
    named,
    overrides,
)

CONFIG = "overrides.txt"
METRICS = "metrics.jsonl"
NAMES = {"loss": "train/loss", "learning_rate": "train/lr", "gradient_norm": "train/grad_norm"}
NAMES |= {"mfu": "train/mfu"}


def configuration(plan: BackendJob) -> dict[str, Any]:
    """Settings over its sft_trainer_engine.yaml. Raises BackendRefused."""
    job, asked = plan.job, plan.job.optimizer
    if asked.schedule == "linear":
        raise BackendRefused("optimizer.schedule: verl has cosine and constant")
    model: dict[str, Any] = {"path": str(plan.base)}
    model |= {"enable_gradient_checkpointing": job.gradient_checkpointing}
    if job.lora is not None:
        model |= {"lora_rank": job.lora.rank, "target_modules": list(job.lora.targets)}
        model |= {"lora_alpha": int(job.lora.alpha or 2 * job.lora.rank)}
    optim: dict[str, Any] = {"lr": asked.learning_rate, "weight_decay": asked.weight_decay}
    optim |= {"betas": list(asked.betas), "clip_grad": asked.gradient_clip}
    optim |= {"lr_warmup_steps": plan.warmup_steps, "lr_scheduler_type": asked.schedule}
    data: dict[str, Any] = {"train_files": str(plan.folder / "data" / "sft.parquet")}
    if plan.training_set.held_out is not None:
        data["val_files"] = str(plan.folder / "data" / "held_out_sft.parquet")
    data |= {"train_batch_size": job.batch.sequences, "max_length": plan.max_tokens}
    data |= {"max_token_len_per_gpu": max(job.batch.tokens, plan.max_tokens)}
    trainer = {"project_name": "tutti", "experiment_name": job.name, "seed": job.seed}
    trainer |= {"total_training_steps": plan.steps, "logger": ["console", "file"]}
    trainer |= {"default_local_dir": str(plan.folder / OUTPUT)}
    return {
        "model": model,
        "optim": {**optim, "min_lr_ratio": asked.final_share},
        "data": data,
        "trainer": trainer,
        "checkpoint": {"save_contents": ["model", "optimizer", "extra", "hf_model"]},
    }


def write(plan: BackendJob, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Its overrides; the launch reads one argument a line."""
    return overrides(settings), (
        f'export VERL_FILE_LOGGER_PATH="$PWD/{METRICS}"\n'
        f"mapfile -t OVERRIDES < {CONFIG}\n"
        'torchrun --standalone --nproc_per_node "${GPUS:-1}" -m verl.trainer.sft_trainer \\\n'
        '  trainer.n_gpus_per_node="${GPUS:-1}" "${OVERRIDES[@]}"\n'
    )


def read_steps(folder: Path) -> list[dict[str, Any]]:
    """Rows of its file logger: {"step": n, "data": {...}}; tokens are summed."""
    rows, tokens = [], Counter[str]()
    for each in json_lines(folder / METRICS):
        if "train/loss" in each["data"]:
            tokens["seen"] += int(each["data"].get("train/global_tokens") or 0)
            known = {"step": each["step"], "tokens": tokens["seen"] or None}
            rows.append(known | named(each["data"], NAMES))
    return rows


BACKEND = Backend("verl", configuration, write, read_steps, CONFIG, "verl")
