"""verl, 0.9.1: SFT by its FSDP engine on conversations, and reinforcement learning by
`verl.trainer.main_ppo`, one answer a task.

Its dataset writes each message with the base's chat template. Overrides are given to Hydra on the
command line, because Hydra refuses unknown names there only. How its loss and advantages are made:
its trainer/ppo/core_algos.py.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tutti.tasks.sweeps.plan import TaskSet
from tutti.tasks.training.backends.base import (
    OUTPUT,
    Backend,
    BackendJob,
    BackendRefused,
    PolicyBackend,
    PolicyPlan,
    json_lines,
    named,
    overrides,
    reward_expression,
    truth_of,
    with_tutti,
)
from tutti.tasks.training.settings import OptimizerSettings

CONFIG = "overrides.txt"
METRICS = "metrics.jsonl"
NAMES = {"loss": "train/loss", "learning_rate": "train/lr", "gradient_norm": "train/grad_norm"}
NAMES |= {"mfu": "train/mfu"}
SAVED = {"save_contents": ["model", "optimizer", "extra", "hf_model"]}
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
NO_LOWER_CLIP = 1.0
"""CISPO has no lower clip: a ratio is never below 1 - 1."""
REWARD = '''\
"""The reward of job {name}, written by tutti: verl calls `compute_score` for each answer."""

import sys

from tutti.tasks.scoring import ScorerFailed, score_text


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **_):
    """The reward, the score of tutti's scorer, and whether that failed (which verl logs)."""
    score, failed = 0.0, 0.0
    try:
        score = score_text(ground_truth, solution_str).value
    except ScorerFailed as error:
        failed = 1.0
        print(f"tutti: {{data_source}}: {{error}}", file=sys.stderr)
    return {{"score": {expression}, "acc": score, "scorer_failed": failed}}
'''


def configuration(plan: BackendJob) -> dict[str, Any]:
    """Settings over its sft_trainer_engine.yaml. Raises BackendRefused."""
    job = plan.job
    if job.optimizer.schedule == "linear":
        raise BackendRefused("optimizer.schedule: verl has cosine and constant")
    model: dict[str, Any] = {"path": str(plan.base)}
    model |= {"enable_gradient_checkpointing": job.gradient_checkpointing}
    if job.lora is not None:
        model |= {"lora_rank": job.lora.rank, "target_modules": list(job.lora.targets)}
        model |= {"lora_alpha": int(job.lora.alpha or 2 * job.lora.rank)}
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
        "optim": _optim(job.optimizer, plan.warmup_steps),
        "data": data,
        "trainer": trainer,
        "checkpoint": SAVED,
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


def refuse(plan: PolicyPlan) -> list[str]:
    """What it cannot do of a job."""
    job, reasons = plan.job, []
    if job.objective not in LOSSES:
        reasons.append(f"objective: {job.objective}; verl has {', '.join(LOSSES)}")
    if job.reward.advantage not in ADVANTAGES:
        reasons.append(f"reward.advantage: {job.reward.advantage}; {', '.join(ADVANTAGES)}")
    if job.optimizer.schedule == "linear":
        reasons.append("optimizer.schedule: verl has cosine and constant")
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


def policy_configuration(plan: PolicyPlan) -> dict[str, Any]:
    """Settings over its ppo_trainer.yaml."""
    job = plan.job
    estimator, by_deviation = ADVANTAGES[job.reward.advantage]
    algorithm: dict[str, Any] = {"adv_estimator": estimator, "use_kl_in_reward": False}
    algorithm |= {"norm_adv_by_std_in_grpo": by_deviation}
    algorithm["rollout_correction"] = {
        "rollout_is": "token",
        "rollout_is_threshold": plan.clip.truncate,
    }
    if job.rollouts.dynamic is not None:
        at_once = -(-job.rollouts.dynamic.round_groups // job.rollouts.groups)
        filters = {"enable": True, "metric": "reward", "max_inflight_gen_batches": at_once}
        algorithm["filter_groups"] = filters
    return {
        "algorithm": algorithm,
        "actor_rollout_ref": {
            "model": _model(plan),
            "actor": _actor(plan),
            "ref": {"log_prob_use_dynamic_bsz": True},
            "rollout": _rollout(plan),
        },
        "data": _data(plan),
        "reward": _reward(plan),
        "trainer": _trainer(plan),
    }


def _model(plan: PolicyPlan) -> dict[str, Any]:
    lora, model = plan.job.lora, {"path": str(plan.base), "use_remove_padding": True}
    if lora is None:
        return model
    alpha = int(lora.alpha or 2 * lora.rank)
    return model | {
        "lora_rank": lora.rank,
        "lora_alpha": alpha,
        "target_modules": list(lora.targets),
    }


def _actor(plan: PolicyPlan) -> dict[str, Any]:
    job, clip = plan.job, plan.clip
    mode, summed = LOSSES[job.objective]
    low = NO_LOWER_CLIP if job.objective == "cispo" else clip.low
    made: dict[str, Any] = {"policy_loss": {"loss_mode": mode}, "loss_agg_mode": summed}
    if job.objective == "dr_grpo":
        made["loss_scale_factor"] = plan.context_tokens
    made |= {"clip_ratio_low": low, "clip_ratio_high": clip.high}
    made |= {"clip_ratio_c": clip.dual or NO_DUAL_CLIP, "entropy_coeff": 0}
    made |= {"use_kl_loss": clip.kl > 0, "kl_loss_coef": clip.kl, "kl_loss_type": "low_var_kl"}
    # One update a step: its mini-batch is the whole batch, counted in tasks.
    made |= {"ppo_mini_batch_size": job.rollouts.groups, "ppo_epochs": 1, "use_dynamic_bsz": True}
    longest = plan.prompt_tokens + plan.answer_tokens
    made |= {"ppo_max_token_len_per_gpu": max(job.batch_tokens, longest)}
    dtype = "bfloat16" if plan.is_half else "float32"
    made |= {"optim": _optim(job.optimizer, plan.warmup_steps), "fsdp_config": {"dtype": dtype}}
    return made | {"checkpoint": SAVED}


def _rollout(plan: PolicyPlan) -> dict[str, Any]:
    job = plan.job
    trials = job.evaluation.trials
    temperature = job.suite.sampling.temperature
    validation: dict[str, Any] = {"n": trials, "do_sample": trials > 1}
    # With one trial it is greedy, as the platform's measurement.
    held_out = (job.evaluation.suite or job.suite).sampling.temperature
    validation |= {"temperature": held_out if trials > 1 else 0}
    made: dict[str, Any] = {
        "name": "vllm",
        "n": job.rollouts.group_size,
        "temperature": temperature,
    }
    made |= {"dtype": "bfloat16" if plan.is_half else "float32", "tensor_model_parallel_size": 1}
    made |= {"calculate_log_probs": True, "log_prob_use_dynamic_bsz": True, "seed": job.seed}
    if job.lora is not None:
        made["load_format"] = "safetensors"  # the base's weights; the adapter is sent beside them
    return made | {"val_kwargs": validation}


def _data(plan: PolicyPlan) -> dict[str, Any]:
    folder = plan.folder / "data"
    made = {"train_files": str(folder / "train.parquet")}
    made |= {"val_files": str(folder / "held_out.parquet")}
    sizes: dict[str, Any] = {
        "max_prompt_length": plan.prompt_tokens,
        "max_response_length": plan.answer_tokens,
    }
    sizes |= {"train_batch_size": plan.job.rollouts.groups, "seed": plan.job.seed}
    return {**made, **sizes, "shuffle": True, "truncation": "error"}


def _reward(plan: PolicyPlan) -> dict[str, Any]:
    file, longest = str(plan.folder / "reward.py"), plan.job.reward.overlong
    made: dict[str, Any] = {"custom_reward_function": {"path": file, "name": "compute_score"}}
    if longest is not None:
        buffer = {"enable": True, "len": longest.buffer_tokens, "penalty_factor": 1.0, "log": True}
        arguments = {"max_resp_len": longest.most_tokens, "overlong_buffer_cfg": buffer}
        made |= {"reward_manager": {"name": "dapo"}, "reward_kwargs": arguments}
    return made


def _trainer(plan: PolicyPlan) -> dict[str, Any]:
    job = plan.job
    trainer = {"project_name": "tutti", "experiment_name": job.name}
    made: dict[str, Any] = trainer | {"logger": ["console", "file"]}
    # Steps decide, so its epochs must not end first.
    made |= {"total_training_steps": job.steps, "total_epochs": 1_000_000, "nnodes": 1}
    made |= {"test_freq": plan.measured_every, "val_before_train": True, "save_freq": job.steps}
    made |= {"default_local_dir": str(plan.folder / OUTPUT)}
    made["v1"] = {"trainer_mode": "colocate_async" if job.rollouts.staleness else "sync"}
    return made


def write_policy(plan: PolicyPlan, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Its overrides; the launch reads one argument a line."""
    lines = (
        f"+{line}" if line.startswith(NOT_IN_SCHEMA) else line
        for line in overrides(settings).splitlines()
    )
    return "".join(f"{line}\n" for line in lines), with_tutti(
        'export VERL_FILE_LOGGER_PATH="$PWD/metrics.jsonl"\n'
        f"mapfile -t OVERRIDES < {CONFIG}\n"
        "python -m verl.trainer.main_ppo \\\n"
        f'  trainer.n_gpus_per_node="${{GPUS:-{plan.gpus}}}" "${{OVERRIDES[@]}}"\n'
    )


def write_data(plan: PolicyPlan, folder: Path) -> None:
    """`data/train.parquet`, `data/held_out.parquet` and `reward.py`."""
    (folder / "data").mkdir()
    for split, tasks in (("train", plan.train), ("held_out", plan.held_out)):
        rows = _rows(plan, split, tasks)
        pq.write_table(pa.Table.from_pylist(rows), folder / "data" / f"{split}.parquet")
    text = REWARD.format(name=plan.job.name, expression=reward_expression(plan.job))
    (folder / "reward.py").write_text(text)


def _rows(plan: PolicyPlan, split: str, tasks: TaskSet) -> list[dict[str, Any]]:
    suite = plan.job.evaluation.suite or plan.job.suite if split != "train" else plan.job.suite
    scorer = tasks.benchmark.scoring
    return [
        {
            "data_source": Path(suite.benchmark).name,
            "prompt": [
                {"role": str(m["role"]), "content": str(m["content"])} for m in each.messages
            ],
            "ability": tasks.benchmark.scorer,
            "reward_model": {
                "style": "rule",
                "ground_truth": truth_of(scorer, each),
            },
            "extra_info": {"split": split, "index": index, "task_id": each.task_id},
        }
        for index, each in enumerate(tasks.tasks)
    ]


def differences(plan: PolicyPlan) -> list[str]:
    """What it does otherwise than tutti."""
    job = plan.job
    found = ["deviations of a group get 1e-6 added, not 1e-4"]
    if job.rollouts.dynamic is None:
        found.append("groups of equal rewards count in the loss's mean; tutti leaves them out")
    else:
        found.append(
            f"rollouts.dynamic.most_rounds ({job.rollouts.dynamic.most_rounds}): its V1 trainer "
            "samples until there are groups enough"
        )
    if job.rollouts.staleness:
        found.append(
            "rollouts.staleness: attempts may span up to 8 versions of the weights, if slow"
        )
    if plan.clip.dual is None and job.objective in ("grpo", "dapo", "dr_grpo"):
        found.append(f"objective_settings.dual: none, written as {NO_DUAL_CLIP:.0e}")
    return found


def _optim(asked: OptimizerSettings, warmup_steps: int) -> dict[str, Any]:
    return {
        "lr": asked.learning_rate,
        "weight_decay": asked.weight_decay,
        "betas": list(asked.betas),
        "clip_grad": asked.gradient_clip,
        "lr_warmup_steps": warmup_steps,
        "lr_scheduler_type": asked.schedule,
        "min_lr_ratio": asked.final_share,
    }


BACKEND = Backend("verl", configuration, write, CONFIG, read_steps, "verl")
POLICY_BACKEND = PolicyBackend(
    "verl", policy_configuration, write_policy, CONFIG, refuse, write_data, differences
)
