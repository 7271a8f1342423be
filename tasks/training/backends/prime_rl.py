"""prime-rl: SFT (`uv run sft @ sft.toml`) on conversations, and reinforcement learning (`uv run rl
@ rl.toml`), one answer a task.

Its renderer writes conversations as the base's chat template does. Of a policy job, its tasks are a
taskset of its library verifiers, in the folder. Its own losses have no clipped ratios, so the job's
loss is a function in the folder, which its `custom` loss imports; it sums that over tokens and
divides by all tokens of the step. Source of names: its package prime-rl-configs.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tutti.tasks.scoring import Scorer
from tutti.tasks.task_sets import Task
from tutti.tasks.training.backends.base import (
    OUTPUT,
    Backend,
    BackendJob,
    PolicyBackend,
    PolicyPlan,
    json_lines,
    named,
    reward_expression,
    truth_of,
    with_tutti,
)
from tutti.tasks.training.settings import OptimizerSettings

CONFIG, POLICY_CONFIG = "sft.toml", "rl.toml"
RUN = "sft"
NAMES = {"step": "step", "loss": "loss/mean", "learning_rate": "optim/lr"}
NAMES |= {"gradient_norm": "optim/grad_norm", "tokens": "progress/num_tokens"}
NAMES |= {"tokens_per_s": "perf/throughput"}
OBJECTIVES = ("dapo", "cispo", "reinforce")
"""Their losses are means over the tokens of a step."""
FILES = Path(__file__).parent / "written"
"""What is copied into the folder: the taskset and the loss."""
EXPRESSION = "REWARD_OF_SCORE"
PLAIN = (["user"], ["system", "user"])
"""Roles of a prompt that its tasks can have."""


def configuration(plan: BackendJob) -> dict[str, Any]:
    """The fields of its SFTConfig."""
    job = plan.job
    model: dict[str, Any] = {"name": str(plan.base), "seq_len": plan.max_tokens}
    if job.lora is not None:
        alpha = job.lora.alpha or 2 * job.lora.rank
        model["lora"] = {"rank": job.lora.rank, "alpha": alpha, "dropout": 0.0}
        model["lora"]["target_modules"] = list(job.lora.targets)
    data = {"type": "sft", "name": str(plan.folder / "data" / "train"), "seed": job.seed}
    data |= {"batch_size": job.batch.sequences, "seq_len": plan.max_tokens}
    made: dict[str, Any] = {"max_steps": plan.steps, "output_dir": str(plan.folder / OUTPUT)}
    if plan.training_set.held_out is not None:
        held_out = data | {"name": str(plan.folder / "data" / "held_out")}
        made["val"] = {"interval": max(1, plan.steps // 10), "data": held_out}
    made |= {"run": {"name": RUN}, "model": model, "data": data}
    return made | _optimizer(job.optimizer, plan.steps, plan.warmup_steps) | {"ckpt": {}}


def write(plan: BackendJob, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Its TOML."""
    launch = f'uv run sft @ {CONFIG} --deployment.num-train-gpus "${{GPUS:-1}}"\n'
    return _toml(settings), launch


def read_steps(folder: Path) -> list[dict[str, Any]]:
    """Rows of its file monitor."""
    rows = json_lines(folder / OUTPUT / RUN / "metrics.jsonl")
    return [named(row, NAMES) for row in rows if row.get("loss/mean") is not None]


def refuse(plan: PolicyPlan) -> list[str]:
    """What it cannot do of a job."""
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
    odd = [each for each in (*plan.train.tasks, *plan.held_out.tasks) if _roles(each) not in PLAIN]
    if odd:
        reasons.append(f"suite: {len(odd)} tasks have prompts of other roles than system and user")
    return reasons


def policy_configuration(plan: PolicyPlan) -> dict[str, Any]:
    """The fields of its RLConfig."""
    job = plan.job
    made: dict[str, Any] = {"max_steps": job.steps, "output_dir": str(plan.folder / OUTPUT)}
    made["seq_len"] = min(plan.context_tokens, plan.prompt_tokens + plan.answer_tokens)
    made |= {"run": {"name": "rl"}, "model": {"name": str(plan.base)}, "ckpt": {}}
    made["inference"] = {"vllm": {"max_model_len": plan.context_tokens}}
    return made | {"trainer": _policy_trainer(plan), "orchestrator": _orchestrator(plan)}


def _policy_trainer(plan: PolicyPlan) -> dict[str, Any]:
    job, clip = plan.job, plan.clip
    settings = {"low": clip.low, "high": clip.high, "truncate": clip.truncate}
    kwargs = settings | ({} if clip.dual is None else {"dual": clip.dual})
    loss = {"type": "custom", "import_path": f"tutti_loss.{job.objective}", "kwargs": kwargs}
    made = _optimizer(job.optimizer, job.steps, plan.warmup_steps) | {"loss": loss}
    if job.lora is not None:
        lora: dict[str, Any] = {"rank": job.lora.rank, "dropout": 0.0}
        lora |= {"alpha": job.lora.alpha or 2.0 * job.lora.rank}
        made["model"] = {"lora": lora | {"target_modules": list(job.lora.targets)}}
    return made


def _orchestrator(plan: PolicyPlan) -> dict[str, Any]:
    job, trials = plan.job, plan.job.evaluation.trials
    train = _source("train")
    if job.rollouts.dynamic is not None:  # groups of equal rewards are drawn anew
        train["curriculum"] = {"gates": {"teaches": {"type": "advantage_range"}}}
    held_out = (job.evaluation.suite or job.suite).sampling
    # With one trial it is greedy, as the platform's measurement.
    evaluation = {"temperature": held_out.temperature if trials > 1 else 0.0}
    sampling = {"temperature": job.suite.sampling.temperature}
    return {
        "algo": {"type": "grpo"},
        "batch_size": plan.attempts,
        "group_size": job.rollouts.group_size,
        "max_off_policy_steps": job.rollouts.staleness,
        # The base's own chat template; typed renderers are for names that it knows.
        "renderer": {"name": "default"},
        "train": {
            "sampling": sampling | {"max_completion_tokens": plan.answer_tokens},
            "source": [train],
        },
        "eval": {
            "interval": plan.measured_every,
            "group_size": trials,
            "sampling": evaluation | {"max_completion_tokens": plan.held_out_tokens},
            "source": [_source("held_out")],
        },
    }


def _source(split: str) -> dict[str, Any]:
    env: dict[str, Any] = {"taskset": {"id": "tutti-tasks", "split": split}}
    env["agent"] = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}
    return {"name": split, "env": env}


def write_policy(plan: PolicyPlan, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Its TOML. Of the GPUs, half sample and the others train; it needs two."""
    return _toml(settings), with_tutti(
        'export PYTHONPATH="$PWD:$PYTHONPATH"\n'
        f"N=${{GPUS:-{max(2, plan.gpus)}}}\n"
        f"uv run rl @ {POLICY_CONFIG} --deployment.gpus-per-node $N \\\n"
        "  --deployment.num-infer-gpus $((N / 2)) --deployment.num-train-gpus $((N - N / 2))\n"
    )


def write_data(plan: PolicyPlan, folder: Path) -> None:
    """`data/train.jsonl`, `data/held_out.jsonl`, `tutti_tasks.py` and `tutti_loss.py`."""
    (folder / "data").mkdir()
    for split, side in (("train", plan.train), ("held_out", plan.held_out)):
        rows = (_row(each, side.benchmark.scoring) for each in side.tasks)
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "data" / f"{split}.jsonl").write_text(lines)
    tasks = (FILES / "tutti_tasks.py.txt").read_text()
    (folder / "tutti_tasks.py").write_text(tasks.replace(EXPRESSION, reward_expression(plan.job)))
    (folder / "tutti_loss.py").write_text((FILES / "tutti_loss.py.txt").read_text())


def _roles(task: Task) -> list[str]:
    return [str(each["role"]) for each in task.messages]


def _row(task: Task, scorer: Scorer) -> dict[str, Any]:
    *system, user = (str(each["content"]) for each in task.messages)
    said = {"id": task.task_id, "prompt": user, "truth": truth_of(scorer, task)}
    return said | ({"system_prompt": system[0]} if system else {})


def differences(plan: PolicyPlan) -> list[str]:
    """What it does otherwise than tutti."""
    job = plan.job
    found = ["ratios are to the engine's log probabilities, which corrects them in one step"]
    if job.rollouts.dynamic is not None:
        found.append("rollouts.dynamic: it samples until the batch is full, without rounds")
    if job.optimizer.schedule == "constant" and plan.warmup_steps:
        found.append("optimizer.warmup_share: its constant schedule has no warm-up")
    if plan.gpus < 2:
        found.append("gpus: it needs two, one to sample and one to train")
    if not plan.is_half:
        found.append("dtype: its engine and trainer choose it")
    return found


def _optimizer(asked: OptimizerSettings, steps: int, warmup_steps: int) -> dict[str, Any]:
    optim = {"type": "adamw", "lr": asked.learning_rate, "weight_decay": asked.weight_decay}
    optim |= {"betas1": asked.betas[0], "betas2": asked.betas[1], "max_norm": asked.gradient_clip}
    scheduler: dict[str, Any] = {"type": asked.schedule}
    if asked.schedule != "constant":
        scheduler["warmup_steps"] = warmup_steps
        scheduler["min_lr"] = asked.learning_rate * asked.final_share
    if asked.schedule == "linear":
        scheduler["decay_steps"] = steps - warmup_steps
    return {"optim": optim, "scheduler": scheduler}


def _toml(settings: Mapping[str, Any]) -> str:
    return "\n".join(_toml_lines(settings)) + "\n"


def _toml_lines(settings: Mapping[str, Any], table: str = "") -> Iterator[str]:
    """TOML: values before tables. JSON's strings, numbers and lists of these are TOML's too."""
    for name, value in settings.items():
        if not isinstance(value, Mapping) and value is not None:
            yield f"{name} = {_toml_value(value)}"
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield f"\n[{table}{name}]"
            yield from _toml_lines(value, f"{table}{name}.")


def _toml_value(value: Any) -> str:
    """A value in line; JSON's are TOML's too, but for tables in a list."""
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{name} = {_toml_value(each)}" for name, each in value.items())
        return f"{{{pairs}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    return json.dumps(value)


BACKEND = Backend("prime-rl", configuration, write, CONFIG, read_steps, "prime-rl")
POLICY_BACKEND = PolicyBackend(
    "prime-rl", policy_configuration, write_policy, POLICY_CONFIG, refuse, write_data, differences
)
