"""Tests of twenty planted defects for each gate: all are caught by the right gate, no good question
is dropped, and without the gate its defects pass."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import NewCatalog
from tests.synthesis.documents.corpora import ROOMS, index_of, write_files
from tutti import storage
from tutti.tasks.retrieval import IndexSpec, Passage, build_index
from tutti.tasks.synthesis.documents import judging
from tutti.tasks.synthesis.documents.base.corpus import Corpus, open_corpus
from tutti.tasks.synthesis.documents.base.from_passages import GAP
from tutti.tasks.synthesis.documents.base.question import quotation
from tutti.tasks.synthesis.documents.gates import DOCUMENT_GATES
from tutti.tasks.synthesis.documents.gates.gate import QuestionContext
from tutti.tasks.synthesis.documents.gates.parses import shown_of
from tutti.tasks.synthesis.documents.judging import candidates_of, judge
from tutti.tasks.synthesis.gating.wording import spaced
from tutti.tasks.task_sets import Task

COUNT = 20
BENCHMARK = "How many apples does Tom have after he buys 7 bags of 4?"
Tasks = Sequence[Task]


@pytest.fixture
def corpus(tmp_path: Path, new_catalog: NewCatalog) -> Corpus:
    with new_catalog(storage.Home(tmp_path / "store")) as catalog:
        return open_corpus(str(index_of(write_files(tmp_path / "files"), catalog)), catalog)


@pytest.fixture
def twins(corpus: Corpus, tmp_path: Path, new_catalog: NewCatalog) -> Corpus:
    """Return the corpus with each of its statements repeated with another answer."""
    others = [
        Passage(
            f"twin{n}.md#0", quotation(each).replace(each.answer, "9876"), "Notes", f"twin{n}.md"
        )
        for n, each in enumerate(candidates_of(corpus, 0))
    ]
    with new_catalog(storage.Home(tmp_path / "twins")) as catalog:
        built = build_index([*corpus.passages, *others], catalog, IndexSpec(words=True))
        return open_corpus(str(built), catalog)


def context_of(corpus: Corpus, *known: str) -> QuestionContext:
    context = QuestionContext(corpus, 2, (BENCHMARK, *known))
    context.note(candidates_of(corpus, 0))
    return context


def misquoted(tasks: Tasks) -> list[Task]:
    """Return tasks with a word that the document does not have, or a sentence about "it"."""
    found = []
    for place, each in enumerate(tasks):
        spoilt = {"question": each.question.replace("? ", "? It is said: ", 1)}
        slots = {**each.slots, "quote": f"{each.slots['quote']} Indeed."}
        found.append(replace(each, inputs=spoilt) if place % 2 else replace(each, slots=slots))
    return found


def leaking(tasks: Tasks) -> list[Task]:
    """Return tasks with the answer in brackets at the end."""
    return [
        replace(each, inputs={"question": f"{each.question[:-1]} ({each.answer})."})
        for each in tasks
    ]


def misplaced(tasks: Tasks, corpus: Corpus) -> list[Task]:
    """Return tasks with the words of a question about another document, which has no room in
    common."""
    found = []
    for each in tasks:
        passage = corpus.passage(each.key)
        assert passage is not None
        own = {room for room in ROOMS if room in passage.text}
        source = each.slots["source"]
        others = (o for o in tasks if o.slots["source"] != source)
        other = next(o for o in others if not any(room in quotation(o) for room in own))
        asked = shown_of(other).replace(GAP, "what").rstrip(".") + "?"
        found.append(replace(each, template="teacher", inputs={"question": asked}))
    return found


PLANTERS: dict[str, Callable[[Tasks], list[Task]]] = {
    "parses": misquoted,
    "leak": leaking,
}


def planted(name: str, corpus: Corpus, twins: Corpus) -> list[tuple[QuestionContext, Tasks]]:
    """Return the defects of a gate, with the contexts in which they are defects."""
    good = candidates_of(corpus, 0)[:COUNT]
    if name in PLANTERS:
        return [(context_of(corpus), PLANTERS[name](good))]
    if name == "retrievable":
        context, defects = context_of(corpus), misplaced(good, corpus)
        context.note(defects)
        return [(context, defects)]
    if name == "contamination":
        return [(context_of(corpus, *(each.question for each in good)), good)]
    if name == "single_answer":
        return [(context_of(twins), good)]
    if name == "blind":
        return [(_usual(each, corpus), [each]) for each in good]
    assert name == "duplicates"
    context = context_of(corpus)
    judge(good, context)
    return [(context, good)]


def _usual(task: Task, corpus: Corpus) -> QuestionContext:
    """Return a context in which a question's answer is the most common one."""
    context = context_of(corpus)
    context.answers[task.template] += Counter({spaced(task.answer): 12})
    return context


def test_no_good_question_is_dropped(corpus: Corpus) -> None:
    good = candidates_of(corpus, 0)
    assert len(good) == 36
    assert {each.reason for each in judge(good, context_of(corpus))} == {None}


@pytest.mark.parametrize("name", DOCUMENT_GATES)
def test_twenty_defects_are_caught_by_their_gate_and_missed_without_it(
    name: str, corpus: Corpus, twins: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [x for context, tasks in planted(name, corpus, twins) for x in judge(tasks, context)]
    assert len(found) == COUNT
    assert [x for x in found if x.reason is None or x.gates[-1] != name] == []
    others = {each: gate for each, gate in DOCUMENT_GATES.items() if each != name}
    monkeypatch.setattr(judging, "DOCUMENT_GATES", others)
    found = [x for context, tasks in planted(name, corpus, twins) for x in judge(tasks, context)]
    assert any(x.reason is None for x in found), "the gate is not needed"
