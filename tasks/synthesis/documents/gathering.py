"""Questions through the gates until there are enough; then rows, files and an artifact.

In: batches of candidates, in order. Out: an artifact ``task_set:...``: ``questions.jsonl`` with the
tasks, and rows of `tasks` and `gate_verdicts` for every candidate. A batch that was judged is kept
in the work folder, so that a run that was killed goes on after it.
"""

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tutti.storage import Catalog, artifact_id, commit, content_hash, now, query
from tutti.tasks.synthesis.documents.gates import DOCUMENT_GATES
from tutti.tasks.synthesis.documents.gates.duplicates import fingerprint
from tutti.tasks.synthesis.documents.gates.gate import QuestionContext
from tutti.tasks.synthesis.documents.question import FAMILY, QUESTIONS, SETTINGS, DocumentTask
from tutti.tasks.synthesis.gating.seen import hash64
from tutti.tasks.synthesis.making.request import NothingMade
from tutti.tasks.synthesis.making.rows import verdicts_of
from tutti.tasks.synthesis.programs.program import split_of
from tutti.tasks.task_sets import Judged, run_gates

SPLITS = ("test", "train", "validation")
"""By how much one needs them: where documents are few, the last goes without."""
COUNT = "select count(*) as n from tasks where task_set_id = $id"
POSITIONS = {name: place for place, name in enumerate(DOCUMENT_GATES, 1)}


def judge(tasks: Sequence[DocumentTask], context: QuestionContext) -> list[dict[str, Any]]:
    """Show questions to every gate in order; one that rejects a question is its last.

    Out, for each: task, task_id, accepted, the gates' names, what each measured, the reason. Not
    for a thread with an event loop: a search takes its time.
    """
    judged = [Judged(task) for task in tasks]
    asyncio.run(run_gates(judged, DOCUMENT_GATES.values(), context))
    context.forget()
    return [each.as_row() | {"task": each.task.model_dump()} for each in judged]


class Gathering:
    """A set as far as it is made."""

    def __init__(self, context: QuestionContext, size: int, work: Path) -> None:
        self._bench, self._size, self._work = context, size, work
        self.rows: list[dict[str, Any]] = []
        self.accepted: list[DocumentTask] = []
        self.dropped: Counter[str] = Counter()
        work.mkdir(parents=True, exist_ok=True)

    @property
    def is_whole(self) -> bool:
        """Whether there are enough."""
        return len(self.accepted) == self._size

    def take(self, batch: Sequence[DocumentTask]) -> None:
        """Judge a batch, or read what was judged of it, up to the last question that is needed."""
        for row in self._judged(batch):
            if self.is_whole:
                break
            self.rows.append(row)
            if row["accepted"]:
                self.accepted.append(DocumentTask.model_validate(row["task"]))
            else:
                self.dropped[row["gates"][-1]] += 1

    def _judged(self, batch: Sequence[DocumentTask]) -> list[dict[str, Any]]:
        name = content_hash([[each.task_id, each.document] for each in batch])
        file = self._work / f"judged-{name}.json"
        if file.is_file():
            rows: list[dict[str, Any]] = json.loads(file.read_text())
            for row in rows:
                if row["accepted"]:
                    task = DocumentTask.model_validate(row["task"])
                    self._bench.seen.add(fingerprint(task))
            return rows
        rows = judge(batch, self._bench)
        temporary = file.with_suffix(".tmp")
        temporary.write_text(json.dumps(rows))
        temporary.rename(file)
        return rows

    def drops(self) -> str:
        """The gates that dropped most, for people."""
        return ", ".join(f"{gate} {n}" for gate, n in self.dropped.most_common()) or "none"

    def check(self, what: str) -> None:
        """Raises NothingMade where the questions are too few. `what`: what ran out."""
        if self.is_whole:
            return
        found = len(self.accepted)
        remedy = f"; --size {found} makes these" if found else ""
        raise NothingMade(
            f"{self._bench.corpus.index_id}: {found} of {self._size} questions passed the gates, "
            f"of {len(self.rows)} candidates; {what}; dropped by: {self.drops()}{remedy}"
        )

    def enter(self, named: Mapping[str, Any], catalog: Catalog) -> str:
        """Commit the rows and enter the artifact; one killed in between enters the same again.

        `named`: what the artifact's detail says besides: request, asked, compared_with.
        """
        index_id = self._bench.corpus.index_id
        splits = splits_of(each.source for each in self.accepted)
        kept = [e.model_copy(update={"split": splits[e.source]}) for e in self.accepted]
        content = {"questions": [[each.task_id, each.document, each.split] for each in kept]}
        made = artifact_id("task_set", content, [index_id])
        detail = {"name": FAMILY, "index_id": index_id, **named, "accepted": len(kept)}
        detail |= {"candidates": len(self.rows), "dropped": dict(self.dropped)}
        out = catalog.home.artifact_folder(made)
        if catalog.artifact(made) is None:  # another request may have made the same tasks
            shutil.rmtree(out, ignore_errors=True)
            _write(self._work / "set", kept, detail).rename(out)
            if not query(COUNT, catalog.home, {"id": made})[0]["n"]:
                commit(catalog, _tables(self.rows, splits, made))
        catalog.enter_artifact(made, detail, [index_id], out)
        return made


def splits_of(sources: Iterable[str]) -> dict[str, str]:
    """The split of each document: by the hash of its name, so that it keeps it when documents are
    added; where a split has none, it gets one of the largest other's. A single one is for test, a
    second one for training."""
    found = {each: split_of(each) for each in sorted(set(sources))}
    for place, split in enumerate(SPLITS):
        counts = Counter(found.values())
        several = [each for each in SPLITS if counts[each] > 1]
        later = [each for each in SPLITS[place + 1 :] if counts[each]]
        if counts[split] or not (several or later):
            continue
        giver = max(several, key=lambda each: counts[each]) if several else later[-1]
        found[max((each for each in found if found[each] == giver), key=hash64)] = split
    return found


def _write(folder: Path, tasks: Sequence[DocumentTask], detail: Mapping[str, Any]) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with (folder / QUESTIONS).open("w") as out:
        out.writelines(json.dumps(each.as_line, sort_keys=True) + "\n" for each in tasks)
    text = json.dumps(detail, indent=1, sort_keys=True) + "\n"
    (folder / SETTINGS).write_text(text)
    return folder


def _tables(
    rows: Sequence[Mapping[str, Any]], splits: Mapping[str, str], made: str
) -> dict[str, list[dict[str, Any]]]:
    verdicts = [verdict for row in rows for verdict in verdicts_of(row, POSITIONS)]
    return {
        "tasks": [_task_row(row, splits) | {"task_set_id": made} for row in rows],
        "gate_verdicts": [each | {"task_set_id": made} for each in verdicts],
    }


def _task_row(row: Mapping[str, Any], splits: Mapping[str, str]) -> dict[str, Any]:
    each = DocumentTask.model_validate(row["task"])
    task, why = each.task, "" if row["accepted"] else f"{row['gates'][-1]}: {row['reason']}"
    return {
        "task_id": row["task_id"],
        "family": FAMILY,
        "template": each.kind,
        "split": splits.get(each.source, each.split),
        "question": each.question,
        "answer": each.answer,
        "slots": json.dumps(task.slots, sort_keys=True),
        "sources": list(task.sources),
        "status": "accepted" if row["accepted"] else "rejected",
        "reason": why,
        "gated_at": now(),
    }
