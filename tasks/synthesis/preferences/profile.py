"""Profiles: what measured runs of the store say of models, experts and tools.

In: a store, and a set of tasks or none. Out: for each subject the share of right attempts, all and
by kind of task, with intervals; mean cost and latency of a call; a text. An attempt counts for
every expert and tool that it used, so a share says how attempts with it went, and not what it
caused.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tutti.storage import Home, query
from tutti.tasks.scoring.statistics import mean_interval
from tutti.tasks.synthesis.preferences.profile_file import (
    Profile,
    Rate,
    Subject,
    SubjectKind,
)

SHOWN_KINDS = 4
"""Kinds of task in a text: the best and the worst of them."""
ATTEMPTS = """
with tried as (
    select a.attempt_id, a.model, a.correct, a.cost_usd, a.working_s,
        coalesce(any_value(t.slots ->> 'id'), a.task_id) as task_id,
        coalesce(any_value(t.slots ->> 'skill'), any_value(t.slots ->> 'template'),
            any_value(t.template), any_value(t.family)) as kind
    from counted a join tasks t on t.task_id = a.task_id
    group by a.attempt_id, a.model, a.correct, a.cost_usd, a.working_s, a.task_id
), measured as (
    select * from tried where $task_set is null or task_id in
        (select task_id from tasks where task_set_id = $task_set)
)
"""
AGENTS = """
select 'model' as subject, model as name, attempt_id, correct, task_id, kind,
    cost_usd, working_s as latency_s from measured
"""
EXPERTS = """
select 'expert' as subject, c.model as name, attempt_id, any_value(m.correct) as correct,
    any_value(m.task_id) as task_id, any_value(m.kind) as kind,
    avg(c.cost_usd) as cost_usd, avg(c.latency_s) as latency_s
from calls c join measured m using (attempt_id) where c.role = 'expert' group by all
"""
TOOLS = """
select 'tool' as subject, r.name, attempt_id, any_value(m.correct) as correct,
    any_value(m.task_id) as task_id, any_value(m.kind) as kind,
    avg(r.cost_usd) as cost_usd, avg(epoch(r.ended_at) - epoch(r.started_at)) as latency_s
from tool_runs r join measured m using (attempt_id) group by all
"""


def measure_profile(home: Home, task_set: str | None = None) -> Profile:
    """The profile of everything that was measured, or of attempts at the tasks of a set."""
    subjects: list[Subject] = []
    for statement in (AGENTS, EXPERTS, TOOLS):
        rows = query(ATTEMPTS + statement, home, {"task_set": task_set})
        named: dict[tuple[SubjectKind, str], list[Mapping[str, Any]]] = defaultdict(list)
        for row in rows:
            named[row["subject"], row["name"]].append(row)
        subjects += [_subject(*key, named[key]) for key in sorted(named)]
    return Profile(task_set=task_set or "", subjects=tuple(subjects))


def _subject(kind: SubjectKind, name: str, rows: Sequence[Mapping[str, Any]]) -> Subject:
    by_kind: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_kind[str(row["kind"])].append(row)
    found = Subject(
        kind=kind,
        name=name,
        all=rate_of("all", rows),
        by_kind=tuple(rate_of(each, by_kind[each]) for each in sorted(by_kind)),
        cost_usd=_mean(row["cost_usd"] for row in rows),
        latency_s=_mean(row["latency_s"] for row in rows),
    )
    return found.model_copy(update={"text": rule_text(found)})


def rate_of(name: str, rows: Iterable[Mapping[str, Any]]) -> Rate:
    """The share of right attempts, with an interval for the tasks they are drawn from: attempts at
    one task count as one task. Rows have ``task_id`` and ``correct``."""
    groups: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        groups[row["task_id"]].append(float(bool(row["correct"])))
    found = mean_interval(list(groups.values()))
    right = int(sum(map(sum, groups.values())))
    n = sum(map(len, groups.values()))
    return Rate(
        kind=name, tasks=len(groups), attempts=n, right=right,
        share=found.value, low=found.low, high=found.high,
    )  # fmt: skip


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean; None where a value is unknown, which a mean of the others would hide."""
    known = list(values)
    if any(value is None for value in known):
        return None
    return sum(value or 0.0 for value in known) / len(known)


def rule_text(subject: Subject) -> str:
    """What the measurements say, as a description by rule."""
    told = {"model": "As agent", "expert": "When asked", "tool": "Attempts that used it"}
    lines = [f"{told[subject.kind]}: {_rate_text(subject.all)}."]
    ranked = sorted(subject.by_kind, key=lambda rate: -rate.share)
    if len(ranked) > 1:
        ends = ranked if len(ranked) <= SHOWN_KINDS else [*ranked[:2], *ranked[-2:]]
        lines.append("; ".join(f"{each.kind}: {_rate_text(each)}" for each in ends) + ".")
    spent = []
    if subject.cost_usd is not None:
        spent.append(f"{subject.cost_usd:.2g} USD")
    if subject.latency_s is not None:
        spent.append(f"{subject.latency_s:.2g} s")
    if spent:
        of = "An attempt takes" if subject.kind == "model" else "A call takes"
        lines.append(f"{of} {' and '.join(spent)} on average.")
    return " ".join(lines)


def _rate_text(rate: Rate) -> str:
    said = f"right in {rate.right} of {rate.attempts}"
    if rate.low is None or rate.high is None:
        return f"{said}, too few to tell"
    return f"{said} ({rate.low:.0%} to {rate.high:.0%})"
