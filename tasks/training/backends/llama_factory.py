"""LLaMA-Factory, 0.9.5: SFT by its own trainer, on our ids.

Its templates are its own copies of the models', which for other models write other ids; and where
`template` is not set it reads the base's, but trains the line break after each turn and writes
tools its own way. So it is given ids (`tokenized_path`), and no template is used.
"""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tutti.tasks.training.backends.base import (
    OUTPUT,
    Backend,
    BackendJob,
    BackendRefused,
    json_lines,
    named,
    tokenise_command,
)

CONFIG = "llama-factory.yaml"
NAMES = {"step": "current_steps", "loss": "loss", "learning_rate": "lr", "tokens": "total_tokens"}
NAMES |= {"tokens_per_s": "throughput"}


def configuration(plan: BackendJob) -> dict[str, Any]:
    """Its YAML's fields. Raises BackendRefused."""
    job = plan.job
    made: dict[str, Any] = {
        "model_name_or_path": str(plan.base),
        "stage": "sft",
        "do_train": True,
        "finetuning_type": "full" if job.lora is None else "lora",
        "dataset": "tutti",  # it must have a name; the ids below are used
        "tokenized_path": str(plan.folder / "tokens"),
        "cutoff_len": plan.max_tokens,
        "output_dir": str(plan.folder / OUTPUT),
        "overwrite_output_dir": True,
        "per_device_train_batch_size": job.batch.sequences,
        "gradient_accumulation_steps": 1,
        **optimizer(plan),
        "max_steps": plan.steps,
        "bf16": plan.is_half,
        "disable_gradient_checkpointing": not job.gradient_checkpointing,
        "seed": job.seed,
        "data_seed": job.seed,
        "logging_steps": 1,
        "include_num_input_tokens_seen": "non_padding",
        "save_strategy": "no",
        "report_to": "none",
    }
    if plan.on_cpu:  # else it refuses bfloat16
        made["use_cpu"] = True
    if job.lora is not None:
        made |= {"lora_rank": job.lora.rank, "lora_target": ",".join(job.lora.targets)}
        made |= {"lora_alpha": int(job.lora.alpha or 2 * job.lora.rank), "lora_dropout": 0.0}
    return made


def optimizer(plan: BackendJob) -> dict[str, Any]:
    """The optimizer and its schedule as Hugging Face's trainers name them. Raises
    BackendRefused."""
    asked = plan.job.optimizer
    made = {
        "learning_rate": asked.learning_rate,
        "weight_decay": asked.weight_decay,
        "adam_beta1": asked.betas[0],
        "adam_beta2": asked.betas[1],
        "max_grad_norm": asked.gradient_clip,
        "warmup_steps": plan.warmup_steps,
    }
    if asked.final_share == 0 or asked.schedule == "constant":
        name = "constant_with_warmup" if asked.schedule == "constant" else asked.schedule
        return made | {"lr_scheduler_type": name}
    if asked.schedule == "linear":
        raise BackendRefused("optimizer.final_share: 0 only, with `schedule: linear`")
    kwargs = {"min_lr_rate": asked.final_share}
    return made | {"lr_scheduler_type": "cosine_with_min_lr", "lr_scheduler_kwargs": kwargs}


def write(plan: BackendJob, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Its YAML; the ids are written by the first command."""
    text = yaml.safe_dump(dict(settings), sort_keys=False)
    tokenise = shlex.join(tokenise_command(plan, "labels"))
    train = f"llamafactory-cli train {shlex.quote(str(plan.folder / CONFIG))}"
    return text, f"python {tokenise}\n{train}\n"


def read_steps(folder: Path) -> list[dict[str, Any]]:
    """Rows of its `trainer_log.jsonl`, whose last line has no loss; at the end `trainer_state.json`
    has the gradients too."""
    state = folder / OUTPUT / "trainer_state.json"
    history = json.loads(state.read_text())["log_history"] if state.is_file() else []
    norms = {row["step"]: row["grad_norm"] for row in history if "grad_norm" in row}
    rows = [named(row, NAMES) for row in json_lines(folder / OUTPUT / "trainer_log.jsonl")]
    return [row | {"gradient_norm": norms.get(row["step"])} for row in rows if "loss" in row]


BACKEND = Backend("llama-factory", configuration, write, CONFIG, read_steps, runs_here=True)
