"""Whether a sweep runs programs that models write, and at which level.

In: a plan. Out: the sandbox's level; None where nothing of it runs programs and no walls are there.
"""

from tutti.tasks.sandbox import WARNING, SandboxUnavailable, level_for_models
from tutti.tasks.scoring import SCORERS
from tutti.tasks.sweeps.plan.plan import Plan


def runs_programs(plan: Plan) -> bool:
    """Whether its agents or its scorers run what a model wrote."""
    problems = {s.problem.task_id: s.problem for cell in plan.cells for s in cell.samples}
    tools = plan.suite.harness.command is None and any(each.searches for each in problems.values())
    scored = any(SCORERS[name].needs == "sandbox" for name in {p.scorer for p in problems.values()})
    return tools or scored or plan.set_up.roles.agent is not None


def sandbox_level(plan: Plan) -> str | None:
    """Raises SandboxUnavailable where it runs programs and no level may be used."""
    try:
        return level_for_models(plan.suite.harness.unsafe_sandbox)
    except SandboxUnavailable:
        if runs_programs(plan):
            raise
        return None


def sandbox_alarm(plan: Plan) -> str:
    """What to say in red before such a sweep runs; "" where walls are there, or nothing runs.

    Raises SandboxUnavailable as `sandbox_level`.
    """
    unwalled = sandbox_level(plan) == "limits" and runs_programs(plan)
    return f"unsafe sandbox: {WARNING}" if unwalled else ""
