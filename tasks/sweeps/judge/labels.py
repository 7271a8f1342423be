"""How far a sweep's scores agree with labels made by people.

In: a JSONL file, a line a label: ``{"attempt_id": …, "correct": true}``, or ``task_id`` where the
sweep has one attempt at the task. Out: the agreement of each labelled attempt's newest score.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tutti.storage import Catalog, query
from tutti.tasks.scoring.metrics import Agreement, agreement
from tutti.tasks.sweeps.spec import SuiteError

KEYS = ("attempt_id", "task_id")
NEWEST = """
select a.attempt_id, a.task_id, arg_max(s.correct, s.scored_at) as correct,
       arg_max(s.scorer, s.scored_at) as scorer
from attempts a left join (from scores where correct is not null) s using (attempt_id)
where a.sweep_id = $sweep group by all
"""


@dataclass(frozen=True)
class LabelAgreement:
    """What came of the comparison."""

    scorers: tuple[str, ...]
    """Whose scores were compared."""
    agreement: Agreement | None
    """None where no labelled attempt has a score."""
    unscored: int
    """Labelled attempts without one: infra or scorer errors. They are in no share."""


def compare_labels(sweep_id: str, file: Path, catalog: Catalog) -> LabelAgreement:
    """Compare a sweep's newest scores with the labels in `file`.

    Raises SuiteError with file and line for what is no label, or names no attempt, or several.
    """
    rows = query(NEWEST, catalog.home, {"sweep": sweep_id})
    by_id = {row["attempt_id"]: row for row in rows}
    by_task: dict[str, list[str]] = {}
    for row in rows:
        by_task.setdefault(row["task_id"], []).append(row["attempt_id"])
    labels: dict[str, bool] = {}
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SuiteError(f"{file}: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            attempt_id, correct = _label(json.loads(line), by_id, by_task)
            if attempt_id in labels:
                raise ValueError(f"{attempt_id} is labelled twice")
        except (ValueError, RecursionError) as error:
            raise SuiteError(f"{file}:{number}: {error}") from error
        labels[attempt_id] = correct
    if not labels:
        raise SuiteError(f"{file}: no labels")
    scored = {each: by_id[each] for each in labels if by_id[each]["correct"] is not None}
    pairs = [(bool(row["correct"]), labels[each]) for each, row in scored.items()]
    scorers = tuple(sorted({row["scorer"] for row in scored.values()}))
    found = agreement(pairs) if pairs else None
    return LabelAgreement(scorers, found, len(labels) - len(pairs))


def _label(
    given: object, by_id: Mapping[str, object], by_task: Mapping[str, list[str]]
) -> tuple[str, bool]:
    """The attempt that a label is of, and what it says. Raises ValueError."""
    if not isinstance(given, dict) or not isinstance(given.get("correct"), bool):
        raise ValueError("a label is an object with `correct`, true or false")
    named = [key for key in KEYS if key in given]
    if len(named) != 1:
        raise ValueError("a label names either `attempt_id` or `task_id`")
    wanted = given[named[0]]
    if not isinstance(wanted, str):
        raise ValueError(f"{named[0]} is no text: {wanted!r}")
    found = by_task.get(wanted, []) if named[0] == "task_id" else [wanted] * (wanted in by_id)
    if len(found) != 1:
        raise ValueError(
            f"{named[0]} {wanted!r} has {len(found)} attempts in this sweep"
            + ("; label each by its attempt_id" if found else "")
        )
    return found[0], given["correct"]
