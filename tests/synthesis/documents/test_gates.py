"""Tests that every gate of questions about documents passes its good examples and rejects its bad
ones with a reason, and that without the gate its bad examples pass."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.conftest import NewCatalog
from tutti import storage
from tutti.tasks.retrieval import IndexSpec, Passage, build_index
from tutti.tasks.synthesis.documents.base.corpus import Corpus, open_corpus
from tutti.tasks.synthesis.documents.gates import DOCUMENT_GATES
from tutti.tasks.synthesis.documents.gates.gate import QuestionContext
from tutti.tasks.synthesis.documents.judging import judge


@pytest.fixture
def catalog(tmp_path: Path, new_catalog: NewCatalog) -> Iterator[storage.Catalog]:
    with new_catalog(storage.Home(tmp_path / "store")) as opened:
        yield opened


def corpus_of(passages: Sequence[Passage], catalog: storage.Catalog) -> Corpus:
    return open_corpus(str(build_index(passages, catalog, IndexSpec())), catalog)


@pytest.mark.parametrize("name", DOCUMENT_GATES)
def test_good_examples_pass_and_bad_ones_do_not(name: str, catalog: storage.Catalog) -> None:
    gate = DOCUMENT_GATES[name]
    examples = gate.examples
    context = QuestionContext(corpus_of(examples.passages, catalog), 2, examples.benchmarks)
    context.note([*examples.good, *examples.bad])
    good, bad = (asyncio.run(gate.judge(e, context)) for e in (examples.good, examples.bad))
    assert good and bad, "a gate has both"
    assert [each.reason for each in good if not each.passed] == []
    assert [place for place, each in enumerate(bad) if each.passed or not each.reason] == []


def test_a_question_is_shown_to_no_gate_after_the_one_that_rejects_it(
    catalog: storage.Catalog,
) -> None:
    """The gates are run in order up to the rejecting one; questions that pass were checked by
    all."""
    examples = DOCUMENT_GATES["parses"].examples
    context = QuestionContext(corpus_of(examples.passages, catalog))
    tasks = [*examples.good, *examples.bad]
    context.note(tasks)
    names = list(DOCUMENT_GATES)
    for row in (each.as_row() for each in judge(tasks, context)):
        assert row["gates"] == names[: len(row["gates"])]
        assert len(row["measured"]) == len(row["gates"])
        assert row["accepted"] == (not row["reason"])
        assert not row["accepted"] or row["gates"] == names
