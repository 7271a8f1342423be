"""verl, 0.9.1: SFT by its FSDP engine on conversations, and reinforcement learning by
`verl.trainer.main_ppo`, one answer per task.

Its dataset writes each message with the base's chat template. Overrides are given to Hydra on the
command line, because Hydra refuses unknown names only there. Source of its loss and advantages: its
trainer/ppo/core_algos.py.
"""

from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tutti.tasks.training.backends.base import (
    BackendJob,
    PolicyBackend,
    PolicyPlan,
    SetBackend,
    json_lines,
    named,
    overrides,
    truth_of,
    with_tutti,
    written,
)

CONFIG = "overrides.txt"
METRICS = "metrics.jsonl"
NAMES = {"loss": "train/loss", "learning_rate": "train/lr", "gradient_norm": "train/grad_norm"}
NAMES |= {"mfu": "train/mfu"}
NOT_IN_SCHEMA = "reward.reward_kwargs."
"""Arguments of its reward manager are in no configuration of its own, so they are added."""
LOSSES = {
    "grpo": ("vanilla", "seq-mean-token-mean"),
    "dapo": ("vanilla", "token-mean"),
    "dr_grpo": ("vanilla", "seq-mean-token-sum-norm"),
    "gspo": ("gspo", "seq-mean-token-mean"),
    "cispo": ("cispo", "token-mean"),
}
"""By objective: its loss, and how it is summed over tokens and sequences."""
ADVANTAGES = {
    "mean_std": ("grpo", True),
    "centred": ("grpo", False),
    "leave_one_out": ("rloo", False),
    "whitened": ("reinforce_plus_plus_baseline", False),
}
"""By kind: its estimator, and whether that divides by the group's deviation."""
NO_DUAL_CLIP = 1e6
"""Its vanilla loss always has a dual clip; a ratio is never so large."""


def refuse_schedule(plan: BackendJob | PolicyPlan) -> list[str]:
    """Return the refusal of a schedule that verl lacks."""
    is_linear = plan.job.optimizer.schedule == "linear"
    return ["optimizer.schedule: verl has cosine and constant"] if is_linear else []


def write(plan: BackendJob, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Return the overrides; the launch reads one argument per line."""
    command = 'torchrun --standalone --nproc_per_node "${GPUS:-1}" -m verl.trainer.sft_trainer'
    return overrides(settings), _launch(command, 1)


def _launch(command: str, gpus: int) -> str:
    return (
        f'export VERL_FILE_LOGGER_PATH="$PWD/{METRICS}"\n'
        f"mapfile -t OVERRIDES < {CONFIG}\n"
        f"{command} \\\n"
        f'  trainer.n_gpus_per_node="${{GPUS:-{gpus}}}" "${{OVERRIDES[@]}}"\n'
    )


def read_steps(folder: Path) -> list[dict[str, Any]]:
    """Return rows of verl's file logger: {"step": n, "data": {...}}; tokens are summed."""
    logged = [each for each in json_lines(folder / METRICS) if "train/loss" in each["data"]]
    seen = accumulate(int(each["data"].get("train/global_tokens") or 0) for each in logged)
    return [
        {"step": each["step"], "tokens": tokens or None} | named(each["data"], NAMES)
        for each, tokens in zip(logged, seen, strict=True)
    ]


def refuse(plan: PolicyPlan) -> list[str]:
    """Return the fields of a job that verl does not support."""
    job, reasons = plan.job, refuse_schedule(plan)
    if job.objective not in LOSSES:
        reasons.append(f"objective: {job.objective}; verl has {', '.join(LOSSES)}")
    if job.reward.advantage not in ADVANTAGES:
        reasons.append(f"reward.advantage: {job.reward.advantage}; {', '.join(ADVANTAGES)}")
    longest = job.reward.overlong
    if longest is not None and longest.most_tokens != plan.answer_tokens:
        reasons.append(
            f"reward.overlong.most_tokens: {longest.most_tokens}; verl counts from the longest "
            f"answer, suite.sampling.max_tokens ({plan.answer_tokens})"
        )
    if plan.held_out_tokens != plan.answer_tokens:
        reasons.append(
            f"evaluation.suite.sampling.max_tokens: {plan.held_out_tokens}; verl has one "
            f"length of answers, suite.sampling.max_tokens ({plan.answer_tokens})"
        )
    if job.objective == "gspo" and plan.clip.dual is not None:
        reasons.append("objective_settings.dual: verl's gspo has no dual clip")
    return reasons


def write_policy(plan: PolicyPlan, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Return the overrides; the launch reads one argument per line."""
    text = overrides(settings).replace(f"\n{NOT_IN_SCHEMA}", f"\n+{NOT_IN_SCHEMA}")
    return text, with_tutti(_launch("python -m verl.trainer.main_ppo", plan.gpus))


def write_data(plan: PolicyPlan, folder: Path) -> None:
    """Write `data/train.parquet`, `data/held_out.parquet` and `reward.py`."""
    (folder / "data").mkdir()
    sides = (
        ("train", plan.train, plan.job.suite),
        ("held_out", plan.held_out, plan.held_out_suite),
    )
    for split, tasks, suite in sides:
        rows = [
            {
                "data_source": Path(suite.benchmark).name,
                "prompt": [
                    {name: str(each[name]) for name in ("role", "content")}
                    for each in task.messages
                ],
                "ability": tasks.benchmark.scorer,
                "reward_model": {
                    "style": "rule",
                    "ground_truth": truth_of(tasks.benchmark.scoring, task),
                },
                "extra_info": {"split": split, "index": index, "task_id": task.task_id},
            }
            for index, task in enumerate(tasks.tasks)
        ]
        pq.write_table(pa.Table.from_pylist(rows), folder / "data" / f"{split}.parquet")
    (folder / "reward.py").write_text(written(plan.job, "verl_reward.py.txt"))


def differences(plan: PolicyPlan) -> list[str]:
    """Return where verl differs from tutti."""
    job = plan.job
    notes = ["deviations of a group get 1e-6 added, not 1e-4"]
    if job.rollouts.dynamic is None:
        notes.append("groups of equal rewards count in the loss's mean; tutti leaves them out")
    else:
        notes.append(
            f"rollouts.dynamic.most_rounds ({job.rollouts.dynamic.most_rounds}): its V1 trainer "
            "samples until there are groups enough"
        )
    if job.rollouts.staleness:
        notes.append(
            "rollouts.staleness: attempts may span up to 8 versions of the weights, if slow"
        )
    if plan.clip.dual is None and job.objective in ("grpo", "dapo", "dr_grpo"):
        notes.append(f"objective_settings.dual: none, written as {NO_DUAL_CLIP:.0e}")
    return notes


BACKEND = SetBackend(
    name="verl",
    schema="verl",
    config_file=CONFIG,
    write=write,
    refuse=refuse_schedule,
    read_steps=read_steps,
    data_format="verl",
)
POLICY_BACKEND = PolicyBackend(
    name="verl",
    schema="verl-rl",
    config_file=CONFIG,
    write=write_policy,
    refuse=refuse,
    constants={"LOSSES": LOSSES, "ADVANTAGES": ADVANTAGES, "NO_DUAL_CLIP": NO_DUAL_CLIP},
    write_data=write_data,
    differences=differences,
)
