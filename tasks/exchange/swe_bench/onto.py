"""Adds the verdicts of SWE-bench's report to attempts that are stored already.

In: a report of ``swebench`` 5.0, `preds.json` beside it if it is there, and a sweep's id. Out: rows
of `scores` by the scorer `swebench`; of an attempt's scores the newest counts. An attempt is found
by `attempt_id` of the prediction, else by its instance.
"""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tutti.storage import StoreError, commit, connect
from tutti.storage import catalog as cat
from tutti.tasks.exchange.imported import ImportedAttempt, ImportIssue
from tutti.tasks.exchange.swe_bench.read import SCORER, read
from tutti.tasks.exchange.swe_bench.stored import StoredAnswer, stored_answers

KNOWN_SQL = "select attempt_id, value, detail from scores where sweep_id = $sweep and scorer = $by"


@dataclass
class AddedVerdicts:
    """What came of a report."""

    added: int = 0
    known: int = 0
    """Verdicts of this report that the attempts had already."""
    unmatched: list[str] = field(default_factory=list)
    """Instances of the report at which the sweep has no attempt."""
    issues: list[ImportIssue] = field(default_factory=list)


def add_verdicts(catalog: cat.Catalog, report: Path, sweep_id: str) -> AddedVerdicts:
    """Add the scores of a report to a sweep's attempts; nothing is added twice.

    Raises StoreError for what is no report, where no instance fits, and where an instance has
    several attempts and no prediction beside the report says which one was graded.
    """
    done, graded = AddedVerdicts(), list[ImportedAttempt]()
    for item in read(report, report.stem):
        if isinstance(item, ImportIssue):
            done.issues.append(item)
        elif isinstance(item, ImportedAttempt):
            graded.append(item)
    if not graded:
        why = str(done.issues[0]) if done.issues else f"{report}: has no submitted instances"
        raise StoreError(why)
    with closing(connect(catalog.home)) as connection:
        answers = stored_answers(connection, sweep_id)
        rows = connection.execute(KNOWN_SQL, {"sweep": sweep_id, "by": SCORER}).fetchall()
    known, scores = set(rows), list[dict[str, Any]]()
    for each in graded:
        answer = _graded_answer(each, answers, report)
        if answer is None:
            done.unmatched.append(each.task_id)
            continue
        row = _score(each, answer, sweep_id)
        if (answer.attempt_id, row["value"], row["detail"]) in known:
            done.known += 1
        else:
            scores.append(row)
    if len(done.unmatched) == len(graded):
        first = done.unmatched[0]
        raise StoreError(f"{report}: none of its instances ({first}, …) is a task of {sweep_id}")
    done.added = len(scores)
    if scores:
        commit(catalog, {"scores": scores})
    return done


def _graded_answer(
    graded: ImportedAttempt, answers: Sequence[StoredAnswer], report: Path
) -> StoredAnswer | None:
    """The attempt that a verdict is about; None if the sweep has none at the instance."""
    same = [each for each in answers if each.instance_id == graded.task_id]
    if graded.origin:
        named = [each for each in same if each.attempt_id == graded.origin]
        if not named:
            raise StoreError(
                f"{report}: the prediction of {graded.task_id} is of attempt {graded.origin}, "
                "which the sweep does not have"
            )
        return named[0]
    if len(same) > 1:
        raise StoreError(
            f"{report}: {graded.task_id} has {len(same)} attempts in the sweep; put the preds.json "
            "of `tutti export swe-bench` that was graded beside the report"
        )
    return same[0] if same else None


def _score(graded: ImportedAttempt, answer: StoredAnswer, sweep_id: str) -> dict[str, Any]:
    (score,) = graded.scores
    detail = {**json.loads(score["detail"]), "run": graded.cell.run}
    ids = {"sweep_id": sweep_id, "cell_id": answer.cell_id, "attempt_id": answer.attempt_id}
    return {**score, **ids, "detail": json.dumps(detail), "scored_at": cat.now()}
