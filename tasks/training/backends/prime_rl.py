"""prime-rl, SFT (`uv run sft @ sft.toml`), on conversations.

Its renderer writes them as the base's chat template does. Source of names: its package
prime-rl-configs.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tutti.tasks.training.backends.base import OUTPUT, Backend, BackendJob, json_lines, named

CONFIG = "sft.toml"
RUN = "sft"
NAMES = {"step": "step", "loss": "loss/mean", "learning_rate": "optim/lr"}
NAMES |= {"gradient_norm": "optim/grad_norm", "tokens": "progress/num_tokens"}
NAMES |= {"tokens_per_s": "perf/throughput"}


def configuration(plan: BackendJob) -> dict[str, Any]:
    """The fields of its SFTConfig."""
    job, asked = plan.job, plan.job.optimizer
    model: dict[str, Any] = {"name": str(plan.base), "seq_len": plan.max_tokens}
    if job.lora is not None:
        alpha = job.lora.alpha or 2 * job.lora.rank
        model["lora"] = {"rank": job.lora.rank, "alpha": alpha, "dropout": 0.0}
        model["lora"]["target_modules"] = list(job.lora.targets)
    optim = {"type": "adamw", "lr": asked.learning_rate, "weight_decay": asked.weight_decay}
    optim |= {"betas1": asked.betas[0], "betas2": asked.betas[1], "max_norm": asked.gradient_clip}
    scheduler: dict[str, Any] = {"type": asked.schedule}
    if asked.schedule != "constant":
        scheduler["warmup_steps"] = plan.warmup_steps
        scheduler["min_lr"] = asked.learning_rate * asked.final_share
    if asked.schedule == "linear":
        scheduler["decay_steps"] = plan.steps - plan.warmup_steps
    data = {"type": "sft", "name": str(plan.folder / "data" / "train"), "seed": job.seed}
    data |= {"batch_size": job.batch.sequences, "seq_len": plan.max_tokens}
    made: dict[str, Any] = {"max_steps": plan.steps, "output_dir": str(plan.folder / OUTPUT)}
    if plan.training_set.held_out is not None:
        held_out = data | {"name": str(plan.folder / "data" / "held_out")}
        made["val"] = {"interval": max(1, plan.steps // 10), "data": held_out}
    made |= {"run": {"name": RUN}, "model": model, "data": data, "optim": optim}
    return made | {"scheduler": scheduler, "ckpt": {}}


def write(plan: BackendJob, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Its TOML."""
    text = "\n".join(toml_lines(settings)) + "\n"
    return text, f'uv run sft @ {CONFIG} --deployment.num-train-gpus "${{GPUS:-1}}"\n'


def toml_lines(settings: Mapping[str, Any], table: str = "") -> Iterator[str]:
    """TOML: values before tables. JSON's strings, numbers and lists of these are TOML's too."""
    for name, value in settings.items():
        if not isinstance(value, Mapping) and value is not None:
            yield f"{name} = {toml_value(value)}"
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield f"\n[{table}{name}]"
            yield from toml_lines(value, f"{table}{name}.")


def toml_value(value: Any) -> str:
    """A value in line; JSON's are TOML's too, but for tables in a list."""
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{name} = {toml_value(each)}" for name, each in value.items())
        return f"{{{pairs}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(value)


def read_steps(folder: Path) -> list[dict[str, Any]]:
    """Rows of its file monitor."""
    rows = json_lines(folder / OUTPUT / RUN / "metrics.jsonl")
    return [named(row, NAMES) for row in rows if row.get("loss/mean") is not None]


BACKEND = Backend("prime-rl", configuration, write, read_steps, CONFIG, "prime-rl")
