"""What of a policy job another trainer can be told, and what it cannot: the latter is refused.

Tasks are carried where an attempt is one answer that one of our pure scorers reads.
"""

import json
from collections import Counter
from collections.abc import Iterator

from tutti.tasks.benchmarks import Benchmark
from tutti.tasks.project import PACKAGE
from tutti.tasks.scoring import Scorer
from tutti.tasks.sweeps.plan import TaskSet
from tutti.tasks.sweeps.spec import STDLIB, Suite
from tutti.tasks.task_sets import Task
from tutti.tasks.training.policy.job import PolicyJob

SCORERS = ("exact", "numeric", "math", "choice")
"""They need an answer and a target only."""
REWARDS = {
    "coalesce(score, 0)": "score",
    "score": "score",
    "if(coalesce(score, 0) = 1, 1, -1)": "1.0 if score == 1 else -1.0",
}
"""`reward.sql` that a file of Python can say: the expression of `score` that it writes."""


def reward_expression(job: PolicyJob) -> str:
    """The reward in Python, of `score`; for a job that `not_carried` says nothing of."""
    return REWARDS[" ".join(job.reward.sql.split())]


def not_carried(job: PolicyJob) -> Iterator[str]:
    """What no other trainer can be told, each with its field."""
    yield from _of_suite(job.suite, "suite")
    if job.evaluation.suite is not None:
        yield from _of_suite(job.evaluation.suite, "evaluation.suite")
    yield from _of_reward(job)
    if job.by_turns and job.reward.process is None:
        yield f"objective: {job.objective} gives each turn an advantage; these are one answer"
    if job.self_play is not None:
        yield "self_play: the other side is played by no other trainer"
    for name in ("minutes", "wall_time_minutes"):
        if getattr(job, name) is not None:
            yield f"{name}: it ends by `steps`"
    if job.rollouts.late_factor is not None:
        yield "rollouts.late_factor: it waits for every attempt"


def _of_suite(suite: Suite, where: str) -> Iterator[str]:
    if suite.benchmark == STDLIB:
        yield f"{where}.benchmark: stdlib's tasks need tutti's tools search and python"
    if suite.benchmarks:
        yield f"{where}.benchmarks: name one, as `benchmark`"
    if suite.harness.command is None and suite.command is not None and not suite.benchmarks:
        yield f"{where}.benchmark: attempts at {suite.benchmark} are made by {suite.command}"
    for name in ("command", "mcp", "search_index", "python", "parallel"):
        if getattr(suite.harness, name) is not None:
            yield f"{where}.harness.{name}: attempts are made by tutti"
    for name in ("judge", "user", "agent", "experts", "search_url"):
        if getattr(suite.roles, name):
            yield f"{where}.roles.{name}: other models and tools are called by tutti"


def _of_reward(job: PolicyJob) -> Iterator[str]:
    reward = job.reward
    if reward.process is not None:
        yield "reward.process: picks of turns are made by tutti"
    for name in ("preference", "parts"):
        if getattr(reward, name):
            yield f"reward.{name}: columns of `counted` are tutti's; a reward is the score"
    if " ".join(reward.sql.split()) not in REWARDS:
        known = " or ".join(map(repr, REWARDS))
        yield f"reward.sql: {reward.sql!r} is SQL over tutti's store; only {known} is carried"
    if reward.permuted:
        yield "reward.permuted: a control of tutti's own"
    if reward.least_deviation:
        yield "reward.least_deviation: groups are left out by tutti; give 0"


def not_carried_of(tasks: TaskSet, where: str) -> Iterator[str]:
    """Why tasks cannot be carried, each with how many."""
    reasons = Counter(_reason(tasks.benchmark, each) for each in tasks.tasks)
    yield from (f"{where}: {count} tasks {reason}" for reason, count in reasons.items() if reason)


def _reason(benchmark: Benchmark, task: Task) -> str:
    if benchmark.world is not None:
        return "act in a world, which tutti runs"
    if benchmark.platform_tools or benchmark.search_index is not None or task.tools:
        return "have tools, which tutti runs"
    if benchmark.own_scorer is not None:
        return "have a scorer of their own"
    if benchmark.scorer not in SCORERS:
        return f"are scored by {benchmark.scorer}; carried are {', '.join(SCORERS)}"
    if not all(isinstance(each.get("content"), str) for each in task.messages):
        return "have prompts that are not text"
    return ""


def truth_of(scorer: Scorer, task: Task) -> str:
    """What the reward function is told of a task: its scorer, and the scorer's target."""
    return json.dumps(
        {"scorer": scorer.name, "version": scorer.version, "target": dict(task.target)}
    )


def with_tutti(launch: str) -> str:
    """Lines of `launch.sh` that begin with tutti's sources, whose scorers the reward calls."""
    return (
        f'export PYTHONPATH="${{TUTTI:-{PACKAGE.parent}}}${{PYTHONPATH:+:$PYTHONPATH}}"\n'
        "export HF_HUB_OFFLINE=1\n" + launch
    )
