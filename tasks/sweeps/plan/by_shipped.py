"""Suites whose attempts a harness of tutti's makes: its environment, its models and its data.

In: a suite and its benchmark. Out: nothing, or a SuiteError before anything starts.
"""

from collections.abc import Sequence
from pathlib import Path

from tutti.tasks.agents import shipped_harness
from tutti.tasks.benchmarks import Benchmark, Task
from tutti.tasks.sandbox import SandboxUnavailable
from tutti.tasks.scoring import ScorerFailed
from tutti.tasks.scoring.lean import lean_set_up
from tutti.tasks.scoring.published import EXECUTED, check_modules, checkout
from tutti.tasks.sweeps.spec import Suite, SuiteError


def check_shipped(suite: Suite, benchmark: Benchmark) -> None:
    """See that the harness is for the benchmark, is installed, and has its user. Raises
    SuiteError."""
    harness = shipped_harness(suite.command)
    assert harness is not None, "asked of suites with one"
    if benchmark.command is None or shipped_harness(benchmark.command) != harness:
        raise SuiteError(
            f"harness.command: {harness.word} makes no attempts at {benchmark.name}; leave it out"
        )
    if suite.harness.mcp is not None:
        raise SuiteError(
            f"harness.mcp: {benchmark.name} has the tools of {harness.name}'s package; leave it out"
        )
    if not harness.has_experts and suite.roles.agent is not None:
        raise SuiteError(f"roles.agent: {harness.word} has no experts; leave it out")
    if not benchmark.needs_user:
        for role, model in (("user", suite.roles.user), ("judge", suite.roles.judge)):
            if model is not None:
                raise SuiteError(f"roles.{role}: {benchmark.name} asks none; leave it out")
    elif suite.roles.user is None:
        raise SuiteError(f"roles.user: {benchmark.name} needs one; name a model of models.yaml")
    if suite.roles.search_url is not None:
        raise SuiteError(f"roles.search_url: nobody searches in {benchmark.name}; leave it out")
    if not harness.python.exists():
        raise SuiteError(
            f"benchmark: {benchmark.name} runs in {harness.name}'s own package, and there is no "
            f"Python with it at {harness.python}; make it: `{harness.install}`"
        )


def check_executed(benchmark: Benchmark, tasks: Sequence[Task]) -> None:
    """See that a scorer that executes programs has what they need: a checkout, Lean, a Python with
    libraries. Raises SuiteError."""
    if benchmark.own_scorer is not None:
        return
    field = "data.rule"
    try:
        if benchmark.scorer in EXECUTED:
            checkout()
        elif benchmark.scorer in ("lean4", "lean4_strict"):
            field = f"benchmark: {benchmark.name}"
            lean_set_up()
        elif benchmark.scorer == "bigcodebench":
            field = f"benchmark: {benchmark.name}"
            check_modules([task.target for task in tasks])
    except (ScorerFailed, SandboxUnavailable) as error:
        raise SuiteError(f"{field}: {error}") from error


def check_shipped_tasks(
    suite: Suite, benchmark: Benchmark, tasks: Sequence[Task], folder: Path
) -> None:
    """See that the harness finds its database in `folder`, and a judge where one decides. Raises
    SuiteError."""
    needed = benchmark.command_needs
    if needed and not any((folder / name).is_file() for name in needed):
        raise SuiteError(f"data.source: {folder} holds none of {', '.join(needed)}")
    judged = sum(task.attributes.get("judged") == "true" for task in tasks)
    if judged and suite.roles.judge is None:
        raise SuiteError(
            f"roles.judge: a judge decides a part of the reward of {judged} of {len(tasks)} tasks; "
            "name a model of models.yaml, or leave them out: --where \"judged = 'false'\""
        )
