"""Of a planned training: steps, attempts and tokens, held-out tasks, objective and reward.

In: a job, and how many tasks or attempts there are, where that is known. Nothing is read here.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

from tutti.tasks.serving import Model
from tutti.tasks.sweeps.spec import reply_tokens
from tutti.tasks.training.job import TrainJob
from tutti.tasks.training.objectives import settings_with
from tutti.tasks.training.plan_base import AnyJob
from tutti.tasks.training.plan_facts import PlanFact, settings_facts, span_text
from tutti.tasks.training.policy.cells import evaluated_after
from tutti.tasks.training.policy.job import PolicyJob


@dataclass(frozen=True)
class TaskCount:
    """How many tasks a split has."""

    most: int | None
    """None where that is not known before the data are here."""
    exact: bool = True
    """Whether there are as many; else no more than these."""


def set_facts(job: TrainJob, attempts: int | None) -> list[PlanFact]:
    """Data and steps of a training on a fixed set. `attempts`: rows of its query or file."""
    source = job.data.query or str(job.data.file)
    facts = [PlanFact("data", "from" if job.data.query else "file", source, source)]
    text = "unknown" if attempts is None else f"{attempts:,}, before any is left out"
    facts.append(PlanFact("data", "rows", attempts, text))
    facts += settings_facts("data", [("tokens", job.data.tokens), ("splits", list(job.data.splits)),
                                     ("held_out_share", job.data.held_out_share)])  # fmt: skip
    steps = _most_steps(job, attempts)
    shown = "unknown before the data are here" if steps is None else f"at most {steps:,}"
    shown += "" if job.minutes is None else f", ends after {job.minutes:g} min"
    facts.append(PlanFact("work", "steps", steps, shown))
    per_step = f"{job.batch.sequences}"
    facts.append(PlanFact("work", "sequences_a_step", job.batch.sequences, per_step))
    return facts


def _most_steps(job: TrainJob, rows: int | None) -> int | None:
    """As the trainer counts them: whole steps of an epoch x epochs, or `steps` if that is less."""
    epochs = job.epochs
    if epochs is None and job.steps is None and job.minutes is None:
        epochs = 1.0
    known = [] if job.steps is None else [job.steps]
    if epochs is not None and rows:
        per_epoch = max(1, math.ceil(rows * (1 - job.data.held_out_share) / job.batch.sequences))
        known.append(max(1, round(per_epoch * epochs)))
    return min(known) if known else None


def rollout_facts(job: PolicyJob, entry: Model | None) -> list[PlanFact]:
    """Steps, attempts and tokens of the rollouts: at most, and with dynamic sampling at least."""
    rolled, suite = job.rollouts, job.suite
    size, dynamic = rolled.group_size, rolled.dynamic
    least = most = rolled.groups
    if dynamic is not None:
        rounds = min(dynamic.most_rounds, math.ceil(rolled.groups / dynamic.round_groups))
        least, most = rounds * dynamic.round_groups, dynamic.most_rounds * dynamic.round_groups
    attempts = (job.steps * least * size, job.steps * most * size)
    facts = settings_facts("rollouts", [("benchmark", suite.benchmark_name), ("steps", job.steps)])
    each = f"{span_text(least, most)} groups x {size}"
    groups = {"least": least, "most": most, "size": size}
    facts.append(PlanFact("rollouts", "groups_a_step", groups, each))
    span = {"least": attempts[0], "most": attempts[1]}
    facts.append(PlanFact("rollouts", "attempts", span, span_text(*attempts)))
    if suite.command is not None:
        text = "unknown: the harness decides how often it calls"
        return [*facts, PlanFact("rollouts", "completion_tokens", None, text)]
    turns = suite.limits.max_turns
    answer = reply_tokens(suite, None if entry is None else entry.context_tokens)
    calls = attempts[1] * turns
    a_call = f"{attempts[1]:,} attempts x {turns} turns x"
    text = f"at most {calls * answer:,} = {a_call} {answer:,}"
    facts.append(PlanFact("rollouts", "completion_tokens", calls * answer, text))
    if entry is not None:
        prompt = max(entry.context_tokens - answer, 1)
        text = f"at most {calls * prompt:,} = {a_call} {prompt:,} (context less answer)"
        facts.append(PlanFact("rollouts", "prompt_tokens", calls * prompt, text))
    return facts


def held_out_facts(job: PolicyJob, tasks: TaskCount) -> list[PlanFact]:
    """How often the held-out tasks are measured, and how many attempts that is."""
    asked, at = job.evaluation, list(evaluated_after(job))
    counts = [each for each in (tasks.most, asked.limit) if each is not None]
    count = min(counts) if counts else None
    exact = tasks.exact and tasks.most is not None
    facts = settings_facts("held-out", [("split", asked.split), ("trials", asked.trials)])
    text = f"{len(at)}, " + ("before and after" if len(at) == 2 else f"every {asked.every} steps")
    facts.insert(1, PlanFact("held-out", "evaluations", len(at), text))
    if count is None:
        return [*facts, PlanFact("held-out", "attempts", None, "unknown before the data are here")]
    total = len(at) * count * asked.trials
    few = "" if exact else "at most "
    text = f"{few}{total:,} = {len(at)} x {count:,} tasks x {asked.trials} trials"
    return [*facts, PlanFact("held-out", "attempts", total, text)]


def objective_facts(job: AnyJob) -> list[PlanFact]:
    """The objective with all its settings, and the optimizer."""
    settings = settings_with(job.objective, job.objective_settings)
    every: dict[str, Any] = {} if settings is None else asdict(settings)
    facts = settings_facts("objective", [("name", job.objective), *every.items()])
    return facts + settings_facts("optimizer", job.optimizer.model_dump(mode="json").items())


def reward_facts(job: PolicyJob) -> list[PlanFact]:
    """What the attempts earn, without the fields that are not used."""
    reward = job.reward
    shown = reward.model_dump(mode="json", exclude_defaults=True)
    shown["advantage"] = reward.advantage
    if not (reward.parts or reward.preference):
        shown["sql"] = reward.sql
    if job.by_turns:
        shown["gamma"] = reward.gamma
    return settings_facts("reward", shown.items())
