"""The gates of tasks with an offer: `offer`, `preference`, and two gates of all domain tasks."""

from collections.abc import Callable, Sequence

from tutti.tasks.synthesis.domains import Domain, DomainTask
from tutti.tasks.synthesis.domains.offer import AIMS, Preference
from tutti.tasks.synthesis.gating import GATES
from tutti.tasks.synthesis.gating.gate import FunctionGate, Gate, each_task
from tutti.tasks.synthesis.preferences.checker import preference_reason
from tutti.tasks.synthesis.preferences.offering import needed_tools


def offer_reason(domain: Domain, task: DomainTask) -> str:
    """Return why tools, prices or weights do not fit the task, or an empty string."""
    if task.world.offer is None:
        return "offer: there is none: no pair of the task's split fits its golden calls"
    offered = {each.name for each in domain.offered(task)}
    missing = sorted(needed_tools(task) - offered)
    if missing:
        return f"tools: {missing[0]} is not offered, and the golden or forbidden calls use it"
    prices = task.world.offer.call_usd
    if offered != prices.keys():
        odd = sorted(offered ^ prices.keys())[0]
        return f"call_usd: {odd} is {'priced and not offered' if odd in prices else 'not priced'}"
    free = next((name for name, usd in prices.items() if not usd > 0), None)
    if free is not None:
        return f"call_usd.{free}: {prices[free]!r} is not above 0"
    return fit_reason(domain, task, task.world.offer.preference)


def fit_reason(domain: Domain, task: DomainTask, preference: Preference) -> str:
    """Return why following a preference would spoil the task, or an empty string."""
    golden = {each.name for each in task.world.actions}
    for name, weight in preference.weights.items():
        if weight < 0 and name in golden:
            return f"weights.{name}: is to be avoided, and the golden calls use it"
        if weight > 0 and name in _writers(domain) - golden:
            return f"weights.{name}: is preferred, changes records, and no golden call uses it"
    return ""


def _writers(domain: Domain) -> frozenset[str]:
    return frozenset(each.name for each in domain.tools if each.kind == "WRITE")


def preferable(domain: Domain, task: DomainTask, offered: Sequence[str]) -> list[str]:
    """Return the offered tools whose use would not spoil the task."""
    golden = {each.name for each in task.world.actions}
    return [name for name in weighable(offered) if name in golden or name not in _writers(domain)]


def check_preference(domain: Domain, task: DomainTask) -> str:
    """Return why the instruction and the weights of a task do not agree, or an empty string."""
    if task.world.offer is None:
        return "preference: the task has none"
    offered = [*(each.name for each in domain.offered(task)), *task.world.offer.experts]
    return preference_reason(task.world.offer.preference, offered)


def _gate(name: str, reason: Callable[[Domain, DomainTask], str]) -> FunctionGate:
    return FunctionGate(name, each_task(lambda task, context: reason(context.domain, task)))


OWN_GATES: dict[str, Gate] = {
    "offer": _gate("offer", offer_reason),
    "preference": _gate("preference", check_preference),
}
PREFERENCE_GATES: dict[str, Gate] = OWN_GATES | {n: GATES[n] for n in ("executes", "oracle")}


def weighable(names: Sequence[str]) -> list[str]:
    """Return the tools that a vector may name: those whose name is not also an aim."""
    return [name for name in names if name not in AIMS]
