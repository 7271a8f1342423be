"""The page of a task set: what it asks, what each gate dropped and why, how hard it is.

In: a store's connection and a task set's id. Out: `index.html` in a folder, self-contained.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti.errors import UsageError
from tutti.tasks.reporting.html import PageReport, Quote, Section, write_page
from tutti.tasks.reporting.table import Columns, tabulate
from tutti.tasks.reporting.text.numbers import count, share
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


@dataclass(frozen=True)
class SkillRate:
    """The attempts at the tasks of a skill."""

    skill: str
    tasks: int
    measured: int
    """Tasks with attempts."""
    attempts: int
    rate: float | None
    """Mean of the tasks' pass rates."""
    low: float | None
    high: float | None


def skill_rates(rows: Sequence[Mapping[str, Any]]) -> list[SkillRate]:
    """The rate of each skill; rows have ``skill`` and ``outcomes``, null where there is none."""
    skills = dict.fromkeys(str(row["skill"]) for row in rows)
    return [_rate(each, [row for row in rows if row["skill"] == each]) for each in skills]


def _rate(skill: str, rows: Sequence[Mapping[str, Any]]) -> SkillRate:
    groups = [[float(each) for each in row["outcomes"]] for row in rows if row["outcomes"]]
    attempts = sum(map(len, groups))
    if not groups:
        return SkillRate(skill, len(rows), 0, 0, None, None, None)
    found = mean_interval(groups)
    return SkillRate(skill, len(rows), len(groups), attempts, found.value, found.low, found.high)


SKILL_COLUMNS: Columns[Any] = {
    "skill": lambda rate: str(rate.skill),
    "tasks": lambda rate: count(rate.tasks),
    "measured": lambda rate: count(rate.measured),
    "attempts": lambda rate: count(rate.attempts),
    "pass rate": lambda rate: "" if rate.rate is None else share(rate.rate),
    "95 % interval": lambda rate: (
        "" if rate.low is None or rate.high is None else f"{share(rate.low)} to {share(rate.high)}"
    ),
}
LEVEL_COLUMNS: Columns[Any] = {
    "level": lambda row: str(row[0]),
    "tasks": lambda row: count(row[1]),
}


def pass_rates(rows: Sequence[Mapping[str, Any]]) -> list[Section]:
    """The sections: skills where a task was measured, levels where tasks have them."""
    rates = skill_rates(rows)
    levels = Counter(row["level"] for row in rows if row["level"])
    sections = []
    if any(rate.attempts for rate in rates):
        table = tabulate(SKILL_COLUMNS, rates)
        sections.append(Section("Pass rate by skill", [table], SKILLS_NOTE))
    if levels:
        known = [(level, levels[level]) for level in LEVELS if levels[level]]
        table = tabulate(LEVEL_COLUMNS, known)
        sections.append(Section("Levels", [table], LEVELS_NOTE))
    return sections


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
COVERAGE_SQL = """
select count(*) as tasks, count(distinct source) as entities,
    count(distinct question) as questions, count(distinct answer) as answers
from (
    select task_id, question, answer, unnest(sources) as source from tasks
    where task_set_id = $id and status = 'accepted'
)
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


GATES: Columns[Any] = {
    "gate": lambda row: str(row["gate"]),
    "shown": lambda row: count(row["shown"]),
    "dropped": lambda row: count(row["dropped"]),
    "share": lambda row: share(row["dropped"] / row["shown"]),
    "measured": lambda row: "" if row["measured"] is None else f"{row['measured']:.3g}",
}
SPLITS: Columns[Any] = {
    "template": lambda row: str(row["template"]),
    "train": lambda row: count(row["train"]),
    "validation": lambda row: count(row["validation"]),
    "test": lambda row: count(row["test"]),
}
KNOBS: Columns[Any] = {
    "knob": lambda row: str(row["knob"]),
    "value": lambda row: str(row["value"]),
    "tasks": lambda row: count(row["tasks"]),
}


def build_task_set_report(
    connection: "DuckDBPyConnection", task_set_id: str, out: Path
) -> PageReport:
    """Write the page of a task set. Raises UsageError for an unknown one."""
    found = rows(connection, SET_SQL, id=task_set_id)
    if not found or not task_set_id.startswith("task_set:"):
        raise UsageError(f"no task set {task_set_id!r}; `select * from task_sets` lists them")
    detail = json.loads(found[0]["detail"])

    def asked(sql: str) -> Sequence[Mapping[str, Any]]:
        return rows(connection, sql, id=task_set_id)

    gates, knobs = asked(GATES_SQL), asked(KNOBS_SQL)
    sections = [
        Section("What each gate dropped", [tabulate(GATES, gates)] if gates else [], GATES_NOTE),
        Section("What is asked", [tabulate(SPLITS, asked(TEMPLATES_SQL))]),
        Section("Difficulty", [tabulate(KNOBS, knobs)] if knobs else []),
        *pass_rates(asked(SKILLS_SQL)),
        Section("An example of each", [_example(each) for each in asked(EXAMPLES_SQL)]),
        Section(
            "Dropped, at most two a gate",
            [Quote(r["question"], str(r["gate"]), [r["reason"]]) for r in asked(REJECTS_SQL)],
        ),
    ]
    facts = {
        "task set": task_set_id,
        "made": f"{found[0]['created_at']:%Y-%m-%d %H:%M} UTC",
        "asked": json.dumps(detail.get("asked"), sort_keys=True),
        "folder": str(found[0]["path"] or ""),
    }
    name = f"Tasks: {detail.get('name') or detail.get('benchmark') or task_set_id}"
    kept = {label: value for label, value in facts.items() if value not in ("", "null")}
    findings = _findings(detail, gates, asked(COVERAGE_SQL)[0])
    return write_page(PageReport(out / "index.html", findings=findings), name, kept, sections)


def _findings(
    detail: Mapping[str, Any], gates: Sequence[Mapping[str, Any]], coverage: Mapping[str, Any]
) -> list[str]:
    accepted, candidates = detail["accepted"], detail.get("candidates") or detail["accepted"]
    said = [
        f"{count(accepted)} of {count(candidates)} candidates are in the set "
        f"({share(accepted / max(1, candidates))})."
    ]
    worst = max(gates, key=lambda gate: gate["dropped"], default=None)
    if worst is not None and worst["dropped"]:
        said.append(f"Most drops: {worst['gate']}, {count(worst['dropped'])}.")
    if coverage["entities"]:
        said.append(
            f"They are about {count(coverage['entities'])} records or documents, with "
            f"{count(coverage['answers'])} different answers."
        )
    if "compared_with" in detail:
        said.append(f"Compared with {count(detail['compared_with'])} questions of benchmarks.")
    return said


def _example(row: Mapping[str, Any]) -> Quote:
    remarks = {"Must be said": row["answer"], "About": row["sources"]}
    known = [f"{name}: {text}" for name, text in remarks.items() if text]
    return Quote(row["question"], f"{row['template']} ({row['split']})", known)
