"""Checks before a start that a benchmark, a harness or an agent supports the suite.

Each check yields its faults as ``field: reason; what to do``; `refuse` raises SuiteError with the
first one.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tutti.tasks.agents.commands import ShippedHarness, shipped_harness
from tutti.tasks.benchmarks import Benchmark
from tutti.tasks.sandbox import SandboxUnavailable
from tutti.tasks.scoring import ScorerFailed
from tutti.tasks.scoring.lean import lean_set_up
from tutti.tasks.scoring.published import EXECUTED, check_modules, checkout
from tutti.tasks.serving.registry import Model
from tutti.tasks.sweeps.plan.roles import Roles
from tutti.tasks.sweeps.spec import Suite, SuiteError, open_named
from tutti.tasks.task_sets import Task

USERS_WITH_TOOLS = ("tau2-banking", "tau2-telecom")
"""Benchmarks in which the simulated user calls tools of its own."""
OWN_LIMITS = ("max_turns", "working_s", "attempt_usd")
"""Limits that tutti's agent keeps, and a package does not know."""


def refuse(faults: Iterable[str]) -> None:
    """Raise SuiteError with the first fault, if there is one."""
    for fault in faults:
        raise SuiteError(fault)


def role_faults(suite: Suite) -> Iterator[str]:
    """Yield models that the benchmark needs and the suite does not name, and vice versa. Raises
    BenchmarkError."""
    benchmark = open_named(suite.benchmark, suite.data)
    harness, roles, name = suite.harness.command, suite.roles, benchmark.name
    shipped = shipped_harness(suite.command)
    if shipped is not None:
        yield from _shipped_faults(suite, benchmark, shipped)
        return
    scorer = benchmark.scoring
    if scorer.needs == "judge" and roles.judge is None and harness is None:
        yield f"roles.judge: {name} is scored by one; name a model of models.yaml"
    if scorer.needs != "judge" and roles.judge is not None:
        yield f"roles.judge: {name} is scored by {scorer.name!r}, which asks none"
    if harness is None and benchmark.interactive and benchmark.world is None:
        yield (
            f"benchmark: {name} needs tools that answer, which are no part of its data; bring them "
            "with a harness of your own: `harness.command`"
        )
    if harness is None and benchmark.needs_user and roles.user is None:
        yield f"roles.user: {name} needs one; name a model of models.yaml"
    if roles.user is not None and (harness is not None or not benchmark.needs_user):
        yield f"roles.user: nobody would ask it: {harness or name} has no such part"


def _shipped_faults(suite: Suite, benchmark: Benchmark, harness: ShippedHarness) -> Iterator[str]:
    roles, name = suite.roles, benchmark.name
    if benchmark.command is None or shipped_harness(benchmark.command) != harness:
        yield f"harness.command: {harness.word} makes no attempts at {name}; leave it out"
    if suite.harness.mcp is not None:
        yield f"harness.mcp: {name} has the tools of {harness.name}'s package; leave it out"
    if not harness.has_experts and roles.agent is not None:
        yield f"roles.agent: {harness.word} has no experts; leave it out"
    if not benchmark.needs_user:
        for role, model in (("user", roles.user), ("judge", roles.judge)):
            if model is not None:
                yield f"roles.{role}: {name} asks none; leave it out"
    elif roles.user is None:
        yield f"roles.user: {name} needs one; name a model of models.yaml"
    if roles.search_url is not None:
        yield f"roles.search_url: nobody searches in {name}; leave it out"
    if not harness.python.exists():
        yield (
            f"benchmark: {name} runs in {harness.name}'s own package, and there is no Python with "
            f"it at {harness.python}; make it: `{harness.install}`"
        )


def task_faults(
    suite: Suite, benchmark: Benchmark, tasks: Sequence[Task], folder: Path | None
) -> Iterator[str]:
    """Yield what the tasks' scorer or harness needs and this machine lacks: a checkout, Lean,
    libraries, a database in `folder` (that of a shipped harness's data), a judge."""
    field = "data.rule" if benchmark.scorer in EXECUTED else f"benchmark: {benchmark.name}"
    try:
        if benchmark.own_scorer is None and benchmark.scorer in EXECUTED:
            checkout()
        elif benchmark.own_scorer is None and benchmark.scorer in ("lean4", "lean4_strict"):
            lean_set_up()
        elif benchmark.own_scorer is None and benchmark.scorer == "bigcodebench":
            check_modules([task.target for task in tasks])
    except (ScorerFailed, SandboxUnavailable) as error:
        yield f"{field}: {error}"
    if folder is None:
        return
    needed = benchmark.command_needs
    if needed and not any((folder / name).is_file() for name in needed):
        yield f"data.source: {folder} holds none of {', '.join(needed)}"
    judged = sum(task.attributes.get("judged") == "true" for task in tasks)
    if judged and suite.roles.judge is None:
        yield (
            f"roles.judge: a judge decides a part of the reward of {judged} of {len(tasks)} tasks; "
            "name a model of models.yaml, or leave them out: --where \"judged = 'false'\""
        )


def agent_faults(
    suite: Suite, roles: Roles, benchmark: Benchmark, tasks: Sequence[Task], searches: bool
) -> Iterator[str]:
    """Why the suite's agent does not fit these tasks; `searches`: whether they can be searched."""
    if roles.agent is None:
        return
    tools, start = roles.agent.tools, f"roles.agent: {suite.roles.agent}"
    name = suite.benchmark_name
    has_world = benchmark.world is not None
    if has_world or suite.command is not None:
        if tools.act is None and tools.call_expert is None:
            yield f"{start} has no tool `call_expert`, so it is for no dialogues"
        if tools.act is not None and not benchmark.has_strategies:
            yield f"{start} names strategies, and {name} has none"
    else:
        if tools.answer is None:
            yield f"{start} has no tool `answer`, so it is for no questions"
        if tools.search is not None and not searches:
            yield (
                f"{start} searches, and {name} has no index; name a retrieval service with "
                "`roles.search_url`"
            )
    if not has_world and any(task.tools for task in tasks):
        yield f"{start} answers questions; here calls of given tools are the answer"


def search_faults(suite: Suite, benchmark: Benchmark, tasks: Sequence[Task]) -> Iterator[str]:
    """Yield tools of the suite that the tasks do not support."""
    harness, name = suite.harness, suite.benchmark_name
    if harness.mcp is not None and benchmark.search_index is not None:
        yield (
            f"harness.mcp: the agent of {name} has the tool search over the index that its "
            "questions are about; leave it out"
        )
    if benchmark.world is not None or any(task.tools for task in tasks):
        for field in ("search_index", "python", "parallel"):
            if getattr(harness, field):
                yield f"harness.{field}: {name} has tools or a dialogue of its own; leave it out"


def package_faults(
    suite: Suite, model: tuple[str, Model | None], roles: Roles, whole: Suite | None
) -> Iterator[str]:
    """Yield what a shipped harness's package cannot do for the suite's models and limits. `model`:
    the measured one with its name; `whole`: the grid of which the suite is a part, whose limits may
    be another part's."""
    harness = shipped_harness(suite.command)
    if harness is None:
        return
    called = [model, *((each.name, each.model) for each in roles.experts.values())]
    if roles.user is not None and suite.benchmark_name in USERS_WITH_TOOLS:
        called.append((roles.user.name, roles.user.model))
    for name, entry in called:
        if entry is not None and not (entry.tools and entry.dialect == "openai"):
            wrong = f"dialect: {entry.dialect}" if entry.tools else "tools: false"
            yield (
                f"models.{name}.{wrong}: {harness.name}'s package sends tools with each request "
                "and reads the calls of the reply, which this model's entry rules out; name "
                f"another model for {suite.benchmark_name}"
            )
    if whole is not None and whole.is_grid:
        return
    if suite.data.prompt is not None:
        yield (
            f"data.prompt: {suite.benchmark_name} has the prompts of {harness.name}'s package; "
            "leave it out"
        )
    for limit in OWN_LIMITS:
        if getattr(suite.limits, limit) != type(suite.limits).model_fields[limit].default:
            instead = "`limits.command_s` limits an attempt's time"
            if harness.has_experts and limit == "max_turns":
                instead = f'set `harness.command: "{harness.word} --max-steps N"`'
            unknown = f"{harness.name}'s package does not know it; leave it out"
            yield f"limits.{limit}: {unknown}; {instead}"
