"""What both sources of questions about documents share: parts of judged questions, and the set.

A set is ``questions.jsonl`` with its tasks. Its documents are divided into splits when it is whole.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tutti.storage import content_hash
from tutti.tasks.synthesis.documents.corpus import Corpus
from tutti.tasks.synthesis.documents.gates import DOCUMENT_GATES
from tutti.tasks.synthesis.documents.gates.duplicates import fingerprint
from tutti.tasks.synthesis.documents.gates.gate import QuestionContext
from tutti.tasks.synthesis.documents.question import FAMILY, QUESTIONS, DocumentTask
from tutti.tasks.synthesis.documents.request import DocumentsRequest
from tutti.tasks.synthesis.gating.seen import hash64
from tutti.tasks.synthesis.programs.program import split_of
from tutti.tasks.task_sets import (
    Judged,
    Row,
    SetInMaking,
    Source,
    is_judged,
    read_part,
    run_gates,
    write_part,
)

SPLITS = ("test", "train", "validation")
"""By how much one needs them: where documents are few, the last goes without."""


def judge(tasks: Sequence[DocumentTask], context: QuestionContext) -> list[Judged[DocumentTask]]:
    """Show questions to every gate in order; one that rejects a question is its last.

    Not for a thread with an event loop: a search takes its time.
    """
    judged = [Judged(task) for task in tasks]
    asyncio.run(run_gates(judged, DOCUMENT_GATES.values(), context))
    context.forget()
    return judged


def judged_part(work: Path, batch: Sequence[DocumentTask], context: QuestionContext) -> Path:
    """The folder of a batch that was judged, now or by a run before. As `judge`, it blocks."""
    name = content_hash([[each.task_id, each.document] for each in batch])
    folder = work / f"judged-{name}"
    if not is_judged(folder):
        return write_part(folder, judge(batch, context), DocumentTask.model_dump_json)
    for row in read_part(folder):
        if row["accepted"]:
            context.seen.add(fingerprint(DocumentTask.model_validate(row["task"])))
    return folder


class QuestionParts(Source):
    """A source of questions about documents but for its parts."""

    gates = tuple(DOCUMENT_GATES)
    exhausted = "its {documents} documents have no more sentences to ask about"

    def __init__(
        self, request: DocumentsRequest, corpus: Corpus, benchmarks: Sequence[str], prompt: str
    ) -> None:
        self.request, self.corpus, self.benchmarks = request, corpus, benchmarks
        self.size = request.size
        self.parents = [corpus.index_id]
        self.work_name = request.request_hash(corpus.index_id, prompt)
        self.request_hash = self.work_name
        self._splits: Mapping[str, str] = {}

    def columns(self, row: Row) -> dict[str, Any]:
        """Of a question, whose split is known when the set is whole."""
        each = DocumentTask.model_validate(row["task"])
        return {
            "family": FAMILY,
            "template": each.kind,
            "split": self._splits.get(each.source, each.split),
            "question": each.question,
            "answer": each.answer,
            "slots": json.dumps(each.task.slots, sort_keys=True),
            "sources": list(each.task.sources),
        }

    def write(self, made: SetInMaking, folder: Path) -> Any:
        """One file; the id is of the questions, where they stand, and their splits."""
        passed = [DocumentTask.model_validate(r["task"]) for r in made.rows() if r["accepted"]]
        self._splits = splits_of(each.source for each in passed)
        kept = [each.model_copy(update={"split": self._splits[each.source]}) for each in passed]
        folder.mkdir()
        with (folder / QUESTIONS).open("w") as out:
            out.writelines(json.dumps(each.as_line, sort_keys=True) + "\n" for each in kept)
        return {"questions": [[each.task_id, each.document, each.split] for each in kept]}

    def detail(self, made: SetInMaking) -> dict[str, Any]:
        """What was asked for."""
        index_id = self.corpus.index_id
        asked = {"name": FAMILY, "index_id": index_id, "asked": self.request.as_asked(index_id)}
        return asked | {"compared_with": len(self.benchmarks)}

    def too_few(self, made: SetInMaking) -> str:
        """How many there are, and how to get those."""
        found = len(made.accepted)
        remedy = f"; --size {found} makes these" if found else ""
        drops = ", ".join(f"{gate} {n}" for gate, n in made.dropped.most_common()) or "none"
        return (
            f"{self.corpus.index_id}: {found} of {self.size} questions passed the gates, of "
            f"{made.candidates} candidates; {self.exhausted.format(documents=self.corpus.sources)}"
            f"; dropped by: {drops}{remedy}"
        )


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
