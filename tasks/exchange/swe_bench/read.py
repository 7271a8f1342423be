"""Import of the verdicts of SWE-bench's own program (``swebench`` 5.0).

In: the report that ``swebench.harness.run_evaluation`` writes, ``<model>.<run id>.json``. Beside
it ``preds.json`` or ``preds.jsonl``, the predictions, if they are there: their patches become the
answers. Out: an `ImportedAttempt` for each submitted instance; the task is the instance's id.
A prediction that tutti exported has the `attempt_id`: such an attempt is of its store already.

The verdict is the program's: resolved is right. Unresolved instances, empty patches and errors of
the evaluation are wrong, as its count has them; the detail of the score says which. Instances
without a prediction are no attempts: the cell's detail has their number.
"""

from collections.abc import Iterator
from pathlib import Path

from tutti.tasks.exchange.fields import Fields, compact, detail_text
from tutti.tasks.exchange.imported import Cell, ImportedAttempt, ImportedItem, ImportIssue
from tutti.tasks.exchange.jsonl import document, records

SCORER = "swebench"
PREDICTIONS = ("preds.json", "preds.jsonl")
OUTCOMES = ("resolved", "unresolved", "empty_patch", "error")
COUNTS = ("total_instances", "submitted_instances", "schema_version")


def read(path: Path, run: str) -> Iterator[ImportedItem]:
    """The instances in the report `path`; `run` names it where its name has no run id."""
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
    detail = {key: found.data[key] for key in COUNTS if key in found}
    cell = Cell(run_id or run, "swe-bench", model or "unknown", detail=detail)
    for id in dict.fromkeys(_ids(found, "submitted_ids")):
        if id not in outcomes:
            found.problem("submitted_ids", f"{id} is in none of the lists of outcomes")
            continue
        yield _attempt(cell, id, outcomes[id], reasons.text(id), patches.get(id))
    yield from found.problems


def _ids(found: Fields, name: str) -> list[str]:
    members = found.array(name)
    for place, member in enumerate(members):
        if not isinstance(member, str):
            found.problem(f"{name}.{place}", f"{member!r} is no instance's id")
    return [member for member in members if isinstance(member, str)]


def _predictions(folder: Path) -> Iterator[Fields | ImportIssue]:
    """The predictions beside a report: lines, a list is not read, or an object by instance."""
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


def _attempt(
    cell: Cell, id: str, outcome: str, reason: str | None, prediction: Fields | None
) -> ImportedAttempt:
    correct = outcome == "resolved"
    patch = prediction.text("model_patch") if prediction else None
    told = detail_text(outcome=outcome, failure_reason=reason)
    attempt = ImportedAttempt(cell, id)
    attempt.outcome = {"status": "ok"} | compact(answer=patch, stop_reason=outcome)
    attempt.score(SCORER, float(correct), correct, detail=told)
    attempt.origin = (prediction.text("attempt_id") if prediction else None) or ""
    return attempt
