"""Tests that the corpus is this Python's own standard library and the same in every process."""

import inspect
import json

from tutti.tasks.retrieval.corpus import Document, Parameter, corpus_id, load_stdlib_corpus


def test_it_describes_what_python_says() -> None:
    documents = {document.name: document for document in load_stdlib_corpus()}
    assert len(documents) > 4000
    dumps = documents["json.dumps"]
    assert dumps.module == "json" and dumps.kind == "function" and dumps.parameters is not None
    names = [p.name for p in dumps.parameters]
    assert [n.lstrip("*") for n in names] == list(inspect.signature(json.dumps).parameters)
    assert dumps.parameters[names.index("skipkeys")] == Parameter("skipkeys", "False")
    method = documents["csv.DictWriter.writerow"]
    assert [p.name for p in method.parameters or ()] == ["rowdict"], "self is not counted"


def test_no_text_holds_a_memory_address() -> None:
    assert not [d.name for d in load_stdlib_corpus() if " at 0x" in d.text]


def test_the_id_is_the_same_again_and_survives_rows() -> None:
    documents = load_stdlib_corpus()
    again = [Document.from_row(json.loads(json.dumps(d.as_row()))) for d in documents]
    assert corpus_id(again) == corpus_id(documents)


def test_aliases_share_a_split() -> None:
    """The same object under another module must not be in training and in the test."""
    parameters = (Parameter("path", None),)
    pair = [Document(f"{m}.join", m, "function", parameters, "Join.") for m in ("ntpath", "posix")]
    assert pair[0].split == pair[1].split
    shares = [document.split == "test" for document in load_stdlib_corpus()]
    assert 0.15 < sum(shares) / len(shares) < 0.25
