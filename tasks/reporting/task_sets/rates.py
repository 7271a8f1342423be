"""The sections of a task set's page on measured pass rates: by skill, and the levels of tasks.

In: rows of tasks with their attempts' outcomes. Out: sections, none where nothing is known.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tutti.tasks.reporting.html import Section
from tutti.tasks.reporting.table import Columns, tabulate
from tutti.tasks.reporting.text.numbers import count, share
from tutti.tasks.scoring.statistics import mean_interval

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
