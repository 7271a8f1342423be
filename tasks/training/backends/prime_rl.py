"""prime-rl: SFT (`uv run sft @ sft.toml`) on conversations, and reinforcement learning (`uv run rl
@ rl.toml`), one answer per task.

Its renderer writes conversations as the base's chat template does. The tasks of a policy job are a
taskset of its library verifiers. Its own losses have no clipped ratios, so its `custom` loss
imports a function from the folder. Source of names: its package prime-rl-configs.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tutti.tasks.task_sets import Task
from tutti.tasks.training.backends.base import (
    OUTPUT,
    BackendJob,
    PolicyBackend,
    PolicyPlan,
    SetBackend,
    flat,
    json_lines,
    named,
    truth_of,
    with_tutti,
    written,
)

CONFIG, POLICY_CONFIG = "sft.toml", "rl.toml"
NAMES = {"step": "step", "loss": "loss/mean", "learning_rate": "optim/lr"}
NAMES |= {"gradient_norm": "optim/grad_norm", "tokens": "progress/num_tokens"}
NAMES |= {"tokens_per_s": "perf/throughput"}
OBJECTIVES = ("dapo", "cispo", "reinforce")
"""Their losses are means over the tokens of a step."""
PLAIN = (["user"], ["system", "user"])
"""Roles of a prompt that its tasks can have."""


def write(plan: BackendJob, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Return the TOML configuration."""
    launch = f'uv run sft @ {CONFIG} --deployment.num-train-gpus "${{GPUS:-1}}"\n'
    return _toml(settings), launch


def read_steps(folder: Path) -> list[dict[str, Any]]:
    """Return rows of prime-rl's file monitor."""
    rows = json_lines(folder / OUTPUT / "sft" / "metrics.jsonl")
    return [named(row, NAMES) for row in rows if row.get("loss/mean") is not None]


def refuse(plan: PolicyPlan) -> list[str]:
    """Return the fields of a job that prime-rl does not support."""
    job, reasons = plan.job, []
    if job.objective not in OBJECTIVES:
        known = ", ".join(OBJECTIVES)
        reasons.append(f"objective: {job.objective}; prime-rl's mean is over tokens, so {known}")
    if job.reward.advantage != "centred":
        reasons.append(f"reward.advantage: {job.reward.advantage}; prime-rl has centred")
    if plan.clip.kl > 0:
        reasons.append("objective_settings.kl: prime-rl has no reference model beside rewards")
    if job.reward.overlong is not None:
        reasons.append("reward.overlong: its reward is told of the answer's text, not its length")
    odd = sum([str(each["role"]) for each in task.messages] not in PLAIN for task in plan.tasks)
    if odd:
        reasons.append(f"suite: {odd} tasks have prompts of other roles than system and user")
    return reasons


def write_policy(plan: PolicyPlan, settings: Mapping[str, Any]) -> tuple[str, str]:
    """The TOML configuration. Half of the GPUs sample and the others train; the minimum is two."""
    return _toml(settings), with_tutti(
        'export PYTHONPATH="$PWD:$PYTHONPATH"\n'
        f"N=${{GPUS:-{max(2, plan.gpus)}}}\n"
        f"uv run rl @ {POLICY_CONFIG} --deployment.gpus-per-node $N \\\n"
        "  --deployment.num-infer-gpus $((N / 2)) --deployment.num-train-gpus $((N - N / 2))\n"
    )


def write_data(plan: PolicyPlan, folder: Path) -> None:
    """Write `data/train.jsonl`, `data/held_out.jsonl`, `tutti_tasks.py` and `tutti_loss.py`."""
    (folder / "data").mkdir()
    for split, side in (("train", plan.train), ("held_out", plan.held_out)):
        with (folder / "data" / f"{split}.jsonl").open("w") as out:
            for task in side.tasks:
                out.write(json.dumps(_row(task, truth_of(side.benchmark.scoring, task))) + "\n")
    for name in ("tutti_tasks.py", "tutti_loss.py"):
        (folder / name).write_text(written(plan.job, f"{name}.txt"))


def _row(task: Task, truth: str) -> dict[str, Any]:
    *system, user = (str(each["content"]) for each in task.messages)
    row = {"id": task.task_id, "prompt": user, "truth": truth}
    return row | ({"system_prompt": system[0]} if system else {})


def differences(plan: PolicyPlan) -> list[str]:
    """Return where prime-rl differs from tutti."""
    job = plan.job
    notes = ["ratios are to the engine's log probabilities, which corrects them in one step"]
    if job.rollouts.dynamic is not None:
        notes.append("rollouts.dynamic: it samples until the batch is full, without rounds")
    if job.optimizer.schedule == "constant" and plan.warmup_steps:
        notes.append("optimizer.warmup_share: its constant schedule has no warm-up")
    if plan.gpus < 2:
        notes.append("gpus: it needs two, one to sample and one to train")
    if not plan.is_half:
        notes.append("dtype: its engine and trainer choose it")
    return notes


def _toml(settings: Mapping[str, Any]) -> str:
    """Settings as TOML, one a line with its dotted name."""
    lines = (f"{name} = {_value(value)}\n" for name, value in flat(settings) if value is not None)
    return "".join(lines)


def _value(value: Any) -> str:
    """Return a value as inline TOML: as in JSON, except for tables."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name} = {_value(each)}' for name, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value)


BACKEND = SetBackend(
    name="prime-rl",
    schema="prime-rl",
    config_file=CONFIG,
    write=write,
    read_steps=read_steps,
    data_format="prime-rl",
)
POLICY_BACKEND = PolicyBackend(
    name="prime-rl",
    schema="prime-rl-rl",
    config_file=POLICY_CONFIG,
    write=write_policy,
    refuse=refuse,
    write_data=write_data,
    differences=differences,
)
