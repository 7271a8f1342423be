"""Seeded defects through the gates: caught by the gate that should, by another, or missed.

In: a domain and good tasks of it. Out: a `DefectCount` for each gate, and which good tasks are
dropped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from random import Random

from bench.synthesis import domain_defects as tools
from bench.synthesis import task_defects as tasks_
from bench.synthesis.planting import Planter
from tutti.tasks.synthesis.domains import Domain, DomainTask, Toolkit
from tutti.tasks.synthesis.gating.gate import Gate, GateContext
from tutti.tasks.synthesis.gating.seen import Seen

PLANTERS = (
    Planter("unknown tool", ("parses",), tasks_.unknown_tool),
    Planter("wrong type", ("parses",), tasks_.wrong_type),
    Planter("missing argument", ("parses",), tasks_.missing_argument),
    Planter("unfilled slot", ("parses",), tasks_.unfilled_slot),
    Planter("nothing asked", ("parses",), tasks_.nothing_asked),
    Planter("unknown record", ("parses",), tasks_.unknown_record),
    Planter("tool not offered", ("parses",), tasks_.not_offered),
    Planter("dangling foreign key", ("records",), tasks_.dangling_key),
    Planter("record's value of another kind", ("records",), tasks_.wrong_kind),
    Planter("record's value out of bounds", ("records",), tasks_.out_of_bounds),
    Planter("undeclared field", ("records",), tasks_.undeclared_field),
    Planter("answer in a tool's description", ("leak",), tasks_.leaked_in_tool),
    Planter("answer in a parameter's description", ("leak",), tasks_.leaked_in_parameter),
    Planter("answer in the policy", ("leak",), tasks_.leaked_in_policy),
    Planter("answer in the user's words", ("leak",), tasks_.leaked_by_user),
    Planter("benchmark question pasted", ("contamination",), tasks_.pasted),
    Planter("part of a benchmark question", ("contamination",), tasks_.pasted_part),
    Planter("benchmark question reworded", ("contamination",), tasks_.pasted_reworded),
    Planter("task copied", ("duplicates",), tasks_.copied),
    Planter("task reworded", ("duplicates",), tasks_.reworded),
    Planter("same words, another answer", ("duplicates", "oracle"), tasks_.contradicting),
    Planter("task reworded, a call made twice", ("duplicates",), tasks_.looked_twice),
    Planter("scenario without the number", ("suffices",), tasks_.untold),
    Planter("id that no call shows", ("suffices", "executes"), tasks_.unseen),
    Planter("WRITE that says it looks", ("described",), tools.says_it_looks),
    Planter("READ that says it changes", ("described",), tools.says_it_changes),
    Planter("description names a stray field", ("described",), tools.names_a_stray_field),
    Planter("parameter that no function takes", ("described",), tools.other_parameters),
    Planter("undeclared changes", ("described",), tools.hides_changes),
    Planter("undeclared key of a result", ("described",), tools.hides_a_key),
    Planter("READ that writes", ("described", "executes"), tools.looks_and_writes),
    Planter("tool's code fails", ("executes",), tools.failing_code),
    Planter("golden call is refused", ("executes",), tools.refused_call),
    Planter("effect drawn by chance", ("replay", "described"), tools.unsteady),
    Planter("wrong golden number", ("oracle", "suffices"), tools.wrong_number),
    Planter(
        "wrong golden record", ("oracle", "suffices", "executes", "policy"), tools.wrong_record
    ),
    Planter("nothing to do", ("no_op",), tools.nothing_to_do),
    Planter("changed and changed back", ("lasting",), tools.changed_back),
    Planter("policy allows the forbidden", ("policy",), tools.allowed_is_forbidden),
    Planter(
        "policy forbids the golden", ("policy", "executes", "described"), tools.forbidden_is_golden
    ),
)
TRIES = 40
"""A planter may find no place in a task: so many are tried for each defect."""


@dataclass(frozen=True)
class Defect:
    """A planted defect."""

    planter: Planter
    domain: Domain
    task: DomainTask
    original: DomainTask


@dataclass
class DefectCount:
    """What came of the defects that one gate should catch."""

    planted: int = 0
    caught: int = 0
    """By the gate that should, or one that is right to."""
    by_another: list[str] = field(default_factory=list)
    """``planter: gate: reason``."""
    missed: list[str] = field(default_factory=list)


@dataclass
class DefectReport:
    """Of one domain."""

    counts: dict[str, DefectCount]
    good: int
    """Tasks without a planted defect."""
    false_drops: list[str] = field(default_factory=list)
    """``gate: task: reason`` of good tasks that were dropped."""


def seed_defects(
    rng: Random,
    domain: Domain,
    tasks: Sequence[DomainTask],
    per_gate: int = 20,
    gates: Sequence[str] | None = None,
) -> list[Defect]:
    """So many defects for each gate, its planters in turn; fewer only where the domain has no place
    for them. `gates` None: all."""
    found = []
    for gate in dict.fromkeys(planter.gates[0] for planter in PLANTERS):
        planters = [each for each in PLANTERS if each.gates[0] == gate]
        if gates is None or gate in gates:
            drawn = (_plant(rng, planter, domain, tasks) for planter in cycle(planters))
            tried = islice(drawn, per_gate * len(planters))
            found += list(islice((each for each in tried if each is not None), per_gate))
    return found


def _plant(
    rng: Random, planter: Planter, domain: Domain, tasks: Sequence[DomainTask]
) -> Defect | None:
    for _ in range(TRIES):
        original = rng.choice(tasks)
        planted = planter.plant(rng, domain, original)
        if planted is not None:
            return Defect(planter, *planted, original)
    return None


async def count_caught(
    defects: Sequence[Defect],
    tasks: Sequence[DomainTask],
    context: GateContext,
    gates: Mapping[str, Gate],
) -> DefectReport:
    """Judge good tasks of the bench's domain, then each defect by the gates in order until one
    rejects it. The bench's `benchmarks` should have `BENCHMARK_TEXTS`. Raises ToolkitFailed."""
    report = DefectReport({}, len(tasks))
    left = list(tasks)
    await _replay(context, left)
    for name, gate in gates.items():
        verdicts = await gate.judge(left, context)
        judged = list(zip(left, verdicts, strict=True))
        report.false_drops += [
            f"{name}: {task.task_id}: {found.reason}" for task, found in judged if not found.passed
        ]
        left = [task for task, found in judged if found.passed]
    for defect in defects:
        rejected = await _first_rejection(defect, context, gates)
        count = report.counts.setdefault(defect.planter.gates[0], DefectCount())
        count.planted += 1
        if rejected is None:
            count.missed.append(f"{defect.planter.name}: {defect.original.task_id}")
        elif rejected[0] in defect.planter.gates:
            count.caught += 1
        else:
            count.by_another.append(f"{defect.planter.name}: {rejected[0]}: {rejected[1]}")
    return report


async def _first_rejection(
    defect: Defect, context: GateContext, gates: Mapping[str, Gate]
) -> tuple[str, str] | None:
    """The gate that rejects a defect, and why."""
    same = defect.domain is context.domain
    facts = context.facts if same else {}
    own = replace(context, domain=defect.domain, seen=Seen(), replays={}, ruled={}, facts=facts)
    changed = defect.domain.toolkit != context.domain.toolkit
    if changed or defect.domain.records != context.domain.records:
        async with Toolkit(defect.domain) as toolkit:
            return await _judge(defect, replace(own, toolkit=toolkit), gates)
    return await _judge(defect, own, gates)


async def _judge(
    defect: Defect, context: GateContext, gates: Mapping[str, Gate]
) -> tuple[str, str] | None:
    if "duplicates" in gates and defect.planter.gates[0] == "duplicates":
        await gates["duplicates"].judge([defect.original], context)
    for name, gate in gates.items():
        if not context.replays and name not in ("parses", "records"):
            await _replay(context, [defect.task])
        (found,) = await gate.judge([defect.task], context)
        if not found.passed:
            return name, found.reason
    return None


async def _replay(context: GateContext, tasks: Sequence[DomainTask]) -> None:
    """Fill the replays, as the gate `executes` does, so that gates can be tried without it."""
    replays = await context.toolkit.replay(tasks)
    ids = [task.task_id for task in tasks]
    context.replays.update(zip(ids, replays, strict=True))
