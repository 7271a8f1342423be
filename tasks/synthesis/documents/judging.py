"""Sets of questions about documents: the request, judged parts, and the source by a program.

The same request over the same index gives the same bytes. The documents of a set are divided into
splits when it is complete.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Literal

from pydantic import Field

from tutti.storage import Catalog, content_hash
from tutti.tasks.synthesis.documents.base.corpus import Corpus, open_corpus
from tutti.tasks.synthesis.documents.base.from_passages import questions_from_passages
from tutti.tasks.synthesis.documents.base.question import FAMILY, document_task
from tutti.tasks.synthesis.documents.gates import DOCUMENT_GATES
from tutti.tasks.synthesis.documents.gates.duplicates import fingerprint
from tutti.tasks.synthesis.documents.gates.gate import SEARCHED, QuestionContext
from tutti.tasks.synthesis.gating.seen import hash64
from tutti.tasks.synthesis.programs.base.program import split_of
from tutti.tasks.synthesis.teacher import BudgetedRequest
from tutti.tasks.task_sets import (
    TASK,
    TASKS,
    Judged,
    NothingMade,
    Row,
    SetInMaking,
    SetPlan,
    Source,
    Task,
    is_judged,
    read_part,
    run_gates,
    write_part,
    write_tasks,
)

DOCUMENTS_VERSION = "1"
"""Of what proposes and judges questions, but for the gates' names and the teacher's prompt."""


class DocumentsRequest(BudgetedRequest):
    """The parameters of a set of questions about the documents of an index."""

    source: Literal["documents"] = Field("documents", description="questions about an index")
    index: str = Field(min_length=1, description="the index, by id or folder (`tutti index`)")
    size: int = Field(200, ge=1, le=100_000, description="questions that pass every gate")
    rank: int = Field(
        2, ge=1, le=SEARCHED, description="a search for the question finds its source so early"
    )
    contamination: bool = Field(
        True, description="compare with the questions of every task set and benchmark in the store"
    )
    teacher: str = Field("", description="a model of the registry that asks; empty: a program")

    def asked_of(self, index_id: str) -> dict[str, Any]:
        """Return `as_asked`, with the index by its id."""
        return self.as_asked | {"index": index_id}

    def request_hash(self, index_id: str, prompt: str = "") -> str:
        """Hash of `as_asked`, and of generator and gates. `prompt`: the hash of the teacher's."""
        return content_hash(
            [DOCUMENTS_VERSION, list(DOCUMENT_GATES), prompt, self.asked_of(index_id)]
        )


SPLITS = ("test", "train", "validation")
"""By how much one needs them: where documents are few, the last goes without."""


def judge(tasks: Sequence[Task], context: QuestionContext) -> list[Judged[Task]]:
    """Pass questions through the gates in order; a rejected question goes no further. Do not call
    it in a thread with an event loop, because a search blocks."""
    judged = [Judged(task) for task in tasks]
    asyncio.run(run_gates(judged, DOCUMENT_GATES.values(), context))
    context.forget()
    return judged


def judged_part(work: Path, batch: Sequence[Task], context: QuestionContext) -> Path:
    """The folder of a judged batch, judged now or by an earlier run. It blocks, as `judge` does."""
    folder = work / f"judged-{content_hash([each.task_id for each in batch])}"
    if not is_judged(folder):
        return write_part(folder, judge(batch, context))
    for row in read_part(folder, TASK):
        if row["accepted"]:
            context.seen.add(fingerprint(row["task"]))
    return folder


class QuestionParts(Source):
    """A source of questions about documents without its parts."""

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

    def row(self, row: Row, task_set_id: str) -> dict[str, Any]:
        return super().row({**row, "task": self._in_split(row["task"])}, task_set_id)

    def write(self, made: SetInMaking, folder: Path) -> Any:
        """Write one file; the id depends on the questions and their splits."""
        passed = [row["task"] for row in made.rows(TASK) if row["accepted"]]
        self._splits = splits_of(each.slots["source"] for each in passed)
        folder.mkdir()
        write_tasks(folder / TASKS, map(self._in_split, passed))
        return {"questions": [[t.task_id, self._splits[t.slots["source"]]] for t in passed]}

    def _in_split(self, task: Task) -> Task:
        return replace(task, split=self._splits.get(task.slots["source"], task.split))

    def detail(self, made: SetInMaking) -> dict[str, Any]:
        index_id = self.corpus.index_id
        asked = {"name": FAMILY, "index_id": index_id, "asked": self.request.asked_of(index_id)}
        return asked | {"compared_with": len(self.benchmarks)}

    def too_few(self, made: SetInMaking) -> str:
        found = len(made.accepted)
        remedy = f"; --size {found} makes these" if found else ""
        drops = ", ".join(f"{gate} {n}" for gate, n in made.dropped.most_common()) or "none"
        return (
            f"{self.corpus.index_id}: {found} of {self.size} questions passed the gates, of "
            f"{made.candidates} candidates; {self.exhausted.format(documents=self.corpus.sources)}"
            f"; dropped by: {drops}{remedy}"
        )


def splits_of(sources: Iterable[str]) -> dict[str, str]:
    """Return the split of each document, by the hash of its name, so that it stays when documents
    are added. An empty split gets a document of the largest other one. A single document is for
    test, a second one for training."""
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


BATCH = 200
SAMPLE = 200


class PassageSource(QuestionParts):
    """Questions that a program generates from passages. `parts` may raise NothingMade,
    EmbedderFailed."""

    def __init__(
        self, request: DocumentsRequest, catalog: Catalog, benchmarks: Sequence[str] = ()
    ) -> None:
        """Read the index's passages. `benchmarks`: questions that no question may repeat. Raises
        UsageError for an index without usable passages."""
        corpus = open_corpus(request.index, catalog, request.seed)
        super().__init__(request, corpus, benchmarks, "")

    async def parts(self, work: Path, made: SetInMaking) -> AsyncGenerator[Path, None]:
        """Yield batches of candidates, in the seed's order."""
        given = self.corpus, self.request, self.benchmarks
        context, candidates = await asyncio.to_thread(context_of, *given)
        for start in range(0, len(candidates), BATCH):
            batch = candidates[start : start + BATCH]
            yield await asyncio.to_thread(judged_part, work, batch, context)


def context_of(
    corpus: Corpus, request: DocumentsRequest, benchmarks: Sequence[str]
) -> tuple[QuestionContext, list[Task]]:
    """The gates' context, and the program's candidates in the seed's order. Raises NothingMade."""
    candidates = candidates_of(corpus, request.seed)
    if not candidates:
        raise NothingMade(
            f"{corpus.index_id}: none of the sentences of its {len(corpus.passages)} passages can "
            "be asked about: they need 8 to 40 words and one number, name or term"
        )
    context = QuestionContext(corpus, request.rank, benchmarks)
    context.note(candidates)
    return context, candidates


def candidates_of(corpus: Corpus, seed: int) -> list[Task]:
    """Return all questions that the program generates, in the seed's order."""
    passages = {each.id: each for each in corpus.passages}
    found = [
        document_task(question, passages[question.document], kind)
        for kind, question in questions_from_passages(corpus.passages)
    ]
    Random(f"{seed}/documents").shuffle(found)
    return found


def plan_document_set(
    request: DocumentsRequest, catalog: Catalog, benchmarks: Sequence[str] = ()
) -> SetPlan:
    """Judge a sample and extrapolate from it. Raises as `PassageSource`."""
    corpus = open_corpus(request.index, catalog, request.seed)
    context, candidates = context_of(corpus, request, benchmarks)
    sample = candidates[:SAMPLE]
    began = time.monotonic()
    judged = judge(sample, context)
    each_s = (time.monotonic() - began) / len(sample)
    passed = sum(each.reason is None for each in judged)
    wanted = min(len(candidates), request.size * len(sample) / max(1, passed))
    possible = round(len(candidates) * passed / len(sample))
    fewer = "" if possible >= request.size else f", fewer than the {request.size} asked for"
    return SetPlan(
        candidates=len(candidates),
        sample=len(sample),
        passed=passed,
        dropped=Counter(each.gates[-1] for each in judged if each.reason is not None),
        seconds=wanted * each_s,
        notes=[
            f"{corpus.sources} documents, {len(corpus.passages)} passages, "
            f"{len(candidates):,} candidates",
            f"about {possible:,} questions can be made{fewer}",
        ],
    )
