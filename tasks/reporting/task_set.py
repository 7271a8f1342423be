"""The page of a task set: its questions, the drops of each gate with reasons, its difficulty.

In: a store's connection and a task set's id. Out: `index.html` in a folder, self-contained.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti.errors import UsageError
from tutti.tasks.reporting.figures.html import PageReport, Quote, Section, write_page
from tutti.tasks.reporting.measures.numbers import count, share, span
from tutti.tasks.reporting.measures.table import Columns, tabulate
from tutti.tasks.scoring.statistics import mean_interval
from tutti.tasks.sweeps.results import rows
from tutti.tasks.synthesis import GATES_SQL

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LEVELS = ("easy", "medium", "hard", "unknown")
SKILLS_NOTE = (
    "Attempts on record, of all models. The interval is for the skill's tasks: those at one task "
    "count as one. Without a label, the skill is the template."
)
LEVELS_NOTE = (
    "Of each task's attempts when the set was labelled. A level is given only if the whole 95 % "
    "interval of the pass rate lies in its range."
)


Row = Mapping[str, Any]


def skill_rates(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rate of each skill: the mean of its tasks' pass rates. Rows have ``skill`` and
    ``outcomes``, null where there is none."""
    return [
        _rate(each, [row["outcomes"] for row in rows if row["skill"] == each])
        for each in dict.fromkeys(row["skill"] for row in rows)
    ]


def _rate(skill: str, outcomes: Sequence[Sequence[int] | None]) -> dict[str, Any]:
    groups = [[float(each) for each in own] for own in outcomes if own]
    rate = {"skill": skill, "tasks": len(outcomes), "measured": len(groups)}
    rate |= {"attempts": sum(map(len, groups))}
    if not groups:
        return rate | dict.fromkeys(("rate", "low", "high"))
    return rate | dict(zip(("rate", "low", "high"), mean_interval(groups), strict=False))


def _columns(*names: str) -> dict[str, Callable[[Row], str]]:
    """Columns of these fields: numbers with thousands separated, texts as they are."""

    def column(name: str) -> Callable[[Row], str]:
        return lambda row: count(row[name]) if isinstance(row[name], int) else str(row[name])

    return {name: column(name) for name in names}


SKILL_COLUMNS: Columns[Row] = _columns("skill", "tasks", "measured", "attempts") | {
    "pass rate": lambda row: share(row["rate"]),
    "95 % interval": lambda row: span(share, row["low"], row["high"]),
}


def pass_rates(rows: Sequence[Row]) -> list[Section]:
    rates = skill_rates(rows)
    levels = Counter(row["level"] for row in rows if row["level"])
    known = [{"level": level, "tasks": levels[level]} for level in LEVELS if levels[level]]
    is_measured = any(rate["attempts"] for rate in rates)
    skills = [tabulate(SKILL_COLUMNS, rates)] if is_measured else []
    tables = [tabulate(_columns("level", "tasks"), known)] if known else []
    return [
        Section("Pass rate by skill", skills, SKILLS_NOTE),
        Section("Levels", tables, LEVELS_NOTE),
    ]


SET_SQL = "select detail, created_at, path from artifacts where artifact_id = $id"
REJECTS_SQL = """
select gate, v.reason, question, answer from gate_verdicts v join tasks using (task_set_id, task_id)
where task_set_id = $id and not passed
qualify row_number() over (partition by gate order by task_id) <= 2 order by position, task_id
"""
TEMPLATES_SQL = """
select coalesce(template, family) as template,
    count(*) filter (split = 'train') as train,
    count(*) filter (split = 'validation') as validation,
    count(*) filter (split = 'test') as test
from tasks where task_set_id = $id and status = 'accepted' group by all order by template
"""
EXAMPLES_SQL = """
select coalesce(template, family) as template, question, answer, split,
    array_to_string(sources[1:3], ', ') as sources from tasks
where task_set_id = $id and status = 'accepted'
qualify row_number() over (partition by coalesce(template, family) order by task_id) = 1
order by template
"""
KNOBS_SQL = """
with knobs as (
    select unnest(json_keys(difficulty)) as knob, difficulty from tasks
    where task_set_id = $id and status = 'accepted' and difficulty is not null
)
select knob, cast(difficulty ->> knob as integer) as value, count(*) as tasks
from knobs group by all order by all
"""
SKILLS_SQL = """
with labelled as (
    select task_id, coalesce(slots ->> 'skill', template, family) as skill,
        coalesce(slots ->> 'level', '') as level
    from tasks where task_set_id = $id and status = 'accepted'
)
select skill, level, task_id, list(cast(correct as int)) filter (correct is not null) as outcomes
from labelled left join counted using (task_id) group by all order by skill, task_id
"""
GATES_NOTE = (
    "A task that a gate drops is not shown to the gates after it. `gate_verdicts` has a row for "
    "each; `measured` is the median of what a gate compared with its threshold."
)


GATES: Columns[Row] = _columns("gate", "shown", "dropped") | {
    "share": lambda row: share(row["dropped"] / row["shown"]),
    "measured": lambda row: "" if row["measured"] is None else f"{row['measured']:.3g}",
}
SPLITS: Columns[Row] = _columns("template", "train", "validation", "test")
KNOBS: Columns[Row] = _columns("knob", "value", "tasks")


def build_task_set_report(
    connection: "DuckDBPyConnection", task_set_id: str, out: Path
) -> PageReport:
    """Write the page of a task set. Raises UsageError for an unknown one."""
    sets = rows(connection, SET_SQL, id=task_set_id)
    if not sets or not task_set_id.startswith("task_set:"):
        raise UsageError(f"no task set {task_set_id!r}; `select * from task_sets` lists them")
    detail = json.loads(sets[0]["detail"])

    def read(sql: str) -> Sequence[Mapping[str, Any]]:
        return rows(connection, sql, id=task_set_id)

    gates, knobs, examples = read(GATES_SQL), read(KNOBS_SQL), []
    for each in read(EXAMPLES_SQL):
        remarks = {"Must be said": each["answer"], "About": each["sources"]}
        known = [f"{name}: {text}" for name, text in remarks.items() if text]
        examples.append(Quote(each["question"], f"{each['template']} ({each['split']})", known))
    sections = [
        Section("What each gate dropped", [tabulate(GATES, gates)] if gates else [], GATES_NOTE),
        Section("What is asked", [tabulate(SPLITS, read(TEMPLATES_SQL))]),
        Section("Difficulty", [tabulate(KNOBS, knobs)] if knobs else []),
        *pass_rates(read(SKILLS_SQL)),
        Section("An example of each", examples),
        Section(
            "Dropped, at most two a gate",
            [Quote(r["question"], str(r["gate"]), [r["reason"]]) for r in read(REJECTS_SQL)],
        ),
    ]
    facts = {
        "task set": task_set_id,
        "made": f"{sets[0]['created_at']:%Y-%m-%d %H:%M} UTC",
        "asked": json.dumps(detail.get("asked"), sort_keys=True),
        "folder": str(sets[0]["path"] or ""),
    }
    name = f"Tasks: {detail.get('name') or detail.get('benchmark') or task_set_id}"
    kept = {label: value for label, value in facts.items() if value not in ("", "null")}
    findings = _findings(detail, gates)
    return write_page(PageReport(out / "index.html", findings=findings), name, kept, sections)


def _findings(detail: Row, gates: Sequence[Row]) -> list[str]:
    accepted, candidates = detail["accepted"], detail.get("candidates") or detail["accepted"]
    sentences = [
        f"{count(accepted)} of {count(candidates)} candidates are in the set "
        f"({share(accepted / max(1, candidates))})."
    ]
    worst = max(gates, key=lambda gate: gate["dropped"], default=None)
    if worst is not None and worst["dropped"]:
        sentences.append(f"Most drops: {worst['gate']}, {count(worst['dropped'])}.")
    if "compared_with" in detail:
        sentences.append(f"Compared with {count(detail['compared_with'])} questions of benchmarks.")
    return sentences
