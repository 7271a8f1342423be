"""Import of the verdicts of SWE-bench's own program (``swebench`` 5.0).

In: the report ``<model>.<run id>.json``, and ``preds.json`` or ``preds.jsonl`` beside it, whose
patches become the answers. Out: an `ImportedAttempt` for each submitted instance. An `attempt_id`
in a prediction names the exported attempt. Unresolved instances, empty patches and errors are
wrong, as in its count; instances without a prediction are not attempts.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tutti.storage import StoreError, commit, connect
from tutti.storage import catalog as cat
from tutti.tasks.exchange.base.fields import Fields, compact, detail_text, document, records
from tutti.tasks.exchange.base.imported import Cell, ImportedAttempt, ImportedItem, ImportIssue
from tutti.tasks.exchange.swe_bench.write import StoredAnswer, stored_answers

SCORER = "swebench"
PREDICTIONS = ("preds.json", "preds.jsonl")
OUTCOMES = ("resolved", "unresolved", "empty_patch", "error")
COUNTS = ("total_instances", "submitted_instances", "schema_version")


def read(path: Path, run: str) -> Iterator[ImportedItem]:
    """The instances in the report `path`; `run` names the run if the report's name does not."""
    found = document(path)
    if isinstance(found, ImportIssue):
        yield found
        return
    if "resolved_ids" not in found or "submitted_ids" not in found:
        yield ImportIssue(path, None, "resolved_ids", "is missing: this is no report of swebench")
        return
    outcomes = {id: word for word in OUTCOMES for id in _ids(found, f"{word}_ids")}
    reasons = found.inner("failure_reasons")
    patches: dict[str, Fields] = {}
    for each in _predictions(path.parent):
        if isinstance(each, ImportIssue):
            yield each
        elif id := each.identity("instance_id"):
            patches[id] = each
    name, _, run_id = path.stem.rpartition(".")
    models = {each.identity("model_name_or_path") for each in patches.values()} - {None}
    model = models.pop() if len(models) == 1 else name.replace("__", "/")
    cell = Cell(run_id or run, "swe-bench", model or "unknown", detail=found.picked(COUNTS))
    for id in dict.fromkeys(_ids(found, "submitted_ids")):
        if id not in outcomes:
            found.problem("submitted_ids", f"{id} is in none of the lists of outcomes")
            continue
        correct, prediction = outcomes[id] == "resolved", patches.get(id, Fields(path, None, {}))
        attempt = ImportedAttempt(cell, id, origin=prediction.text("attempt_id") or "")
        attempt.outcome = {"status": "ok", "stop_reason": outcomes[id]}
        attempt.outcome |= compact(answer=prediction.text("model_patch"))
        detail = detail_text(outcome=outcomes[id], failure_reason=reasons.text(id))
        attempt.score(SCORER, float(correct), correct, detail=detail)
        yield attempt
    yield from found.problems


def _ids(found: Fields, name: str) -> list[str]:
    members = found.array(name)
    for place, member in enumerate(members):
        if not isinstance(member, str):
            found.problem(f"{name}.{place}", f"{member!r} is no instance's id")
    return [member for member in members if isinstance(member, str)]


def _predictions(folder: Path) -> Iterator[Fields | ImportIssue]:
    """The predictions beside a report, from lines or an object by instance; no list is read."""
    file = next((folder / name for name in PREDICTIONS if (folder / name).is_file()), None)
    if file is None:
        return
    if file.suffix == ".jsonl":
        yield from records(file)
        return
    found = document(file)
    if isinstance(found, ImportIssue):
        yield found
        return
    yield from (found.inner(id) for id in found.data)
    yield from found.problems


KNOWN_SQL = "select attempt_id, value, detail from scores where sweep_id = $sweep and scorer = $by"


@dataclass
class AddedVerdicts:
    """The result of adding a report's verdicts."""

    added: int = 0
    known: int = 0
    """Verdicts of this report that the attempts had already."""
    unmatched: list[str] = field(default_factory=list)
    """Instances of the report at which the sweep has no attempt."""
    issues: list[ImportIssue] = field(default_factory=list)


def add_verdicts(catalog: cat.Catalog, report: Path, sweep_id: str) -> AddedVerdicts:
    """Add the scores of a report to a sweep's stored attempts, by scorer `swebench`; none twice.

    An attempt is found by `attempt_id` of the prediction beside the report, else by its instance.

    Raises StoreError for what is no report, where no instance fits, and where an instance has
    several attempts and no prediction beside the report says which one was graded.
    """
    items = list(read(report, report.stem))
    graded = [item for item in items if isinstance(item, ImportedAttempt)]
    done = AddedVerdicts(issues=[item for item in items if isinstance(item, ImportIssue)])
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
        (row,) = each.scores
        detail = {**json.loads(row["detail"]), "run": each.cell.run}
        row |= {"sweep_id": sweep_id, "cell_id": answer.cell_id, "attempt_id": answer.attempt_id}
        row |= {"detail": json.dumps(detail), "scored_at": cat.now()}
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
    """Return the attempt of a verdict; None if the sweep has none at the instance."""
    same = [each for each in answers if each.instance_id == graded.task_id]
    if graded.origin:
        same = [each for each in same if each.attempt_id == graded.origin]
        if not same:
            raise StoreError(
                f"{report}: the prediction of {graded.task_id} is of attempt {graded.origin}, "
                "which the sweep does not have"
            )
    if len(same) > 1:
        raise StoreError(
            f"{report}: {graded.task_id} has {len(same)} attempts in the sweep; put the preds.json "
            "of `tutti export swe-bench` that was graded beside the report"
        )
    return same[0] if same else None
