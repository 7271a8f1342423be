"""Tests of a question set about a folder of files, by the program: stored with sources and
verdicts, reproducible to the byte, resumable after a kill, with errors for an invalid index."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import NewCatalog
from tests.synthesis.documents.corpora import index_of, write_files
from tests.synthesis.made import made_set
from tutti import storage
from tutti.errors import UsageError
from tutti.tasks.agents.tools.toolbox import RESULTS_PER_SEARCH
from tutti.tasks.retrieval import MANIFEST, Passage, build_index
from tutti.tasks.synthesis import DocumentsRequest, count_gates, plan_document_set
from tutti.tasks.synthesis.documents import judging
from tutti.tasks.synthesis.documents.gates import DOCUMENT_GATES
from tutti.tasks.synthesis.documents.gates.gate import QuestionContext
from tutti.tasks.synthesis.documents.judging import PassageSource, judge, splits_of
from tutti.tasks.task_sets import TASK, TASKS, Judged, NothingMade, SetInMaking, Task, read_tasks
from tutti.tasks.task_sets import make as make_module


@pytest.fixture
def catalog(tmp_path: Path, new_catalog: NewCatalog) -> Iterator[storage.Catalog]:
    with new_catalog(storage.Home(tmp_path / "store")) as opened:
        yield opened


@pytest.fixture
def index(tmp_path: Path, catalog: storage.Catalog) -> str:
    return str(index_of(write_files(tmp_path / "files"), catalog))


def test_a_set_has_its_sources_its_verdicts_and_its_index(
    index: str, catalog: storage.Catalog
) -> None:
    shown = []
    request = DocumentsRequest(index=index, size=15, seed=3)
    made = made_set(PassageSource(request, catalog), catalog, lambda *seen: shown.append(seen))
    assert made_set(PassageSource(request, catalog), catalog) == made and shown[-1][:2] == (15, 15)
    entry = catalog.artifact(made)
    assert entry is not None and entry["detail"]["index_id"] in catalog.parents(made)
    tasks = read_tasks(entry["path"] / TASKS, TASK)
    rows = storage.query(
        "select * from tasks where status = 'accepted' and task_set_id = $id", catalog.home,
        {"id": made},
    )  # fmt: skip
    assert {each.task_id for each in tasks} == {row["task_id"] for row in rows}
    assert len(rows) == 15
    for row in rows:
        (source,) = row["sources"]
        slots = json.loads(row["slots"])
        assert source == f"{slots['source']}#0"
        assert row["answer"] in slots["quote"].replace("`", "")
        assert row["template"] in ("number", "name", "term") and row["family"] == "documents"
    by_document: dict[str, set[str]] = {}
    for row in rows:
        by_document.setdefault(row["sources"][0], set()).add(row["split"])
    assert all(len(splits) == 1 for splits in by_document.values())
    assert {row["split"] for row in rows} == {"train", "validation", "test"}
    gates = count_gates(catalog.home, made)
    assert [row["gate"] for row in gates] == list(DOCUMENT_GATES)
    assert gates[0]["shown"] == entry["detail"]["candidates"]
    assert not list(catalog.home.artifacts.glob("*.work"))


def test_the_same_request_gives_the_same_bytes(tmp_path: Path, new_catalog: NewCatalog) -> None:
    """This holds in another store; another seed gives another set, and the index may be named by
    id."""
    files = write_files(tmp_path / "files")
    found = []
    for name in "ab":
        with new_catalog(storage.Home(tmp_path / name)) as catalog:
            folder = index_of(files, catalog)
            index_id = json.loads((folder / MANIFEST).read_text())["index_id"]
            named = str(folder) if name == "a" else index_id.removeprefix("index:")
            made = made_set(PassageSource(DocumentsRequest(index=named, size=9), catalog), catalog)
            entry = catalog.artifact(made)
            assert entry is not None
            files_of = sorted(each for each in entry["path"].iterdir())
            found.append((made, [(each.name, each.read_bytes()) for each in files_of]))
            other = made_set(
                PassageSource(DocumentsRequest(index=named, size=9, seed=1), catalog), catalog
            )
            assert other != made
    assert found[0] == found[1]


def test_a_run_that_was_killed_goes_on(
    index: str, catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judged batches are not judged again, and the set equals that of an undisturbed run."""
    monkeypatch.setattr(judging, "BATCH", 4)
    request = DocumentsRequest(index=index, size=14)
    taken = SetInMaking.take

    def take(self: SetInMaking, folder: Path) -> None:
        taken(self, folder)
        if len(self.parts) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(SetInMaking, "take", take)
        with pytest.raises(KeyboardInterrupt):
            made_set(PassageSource(request, catalog), catalog)
    (work,) = catalog.home.artifacts.glob("*.work")
    kept = {each: each.stat().st_mtime_ns for each in work.glob("judged-*")}
    assert len(kept) == 2
    judged: list[int] = []

    def count(tasks: list[Task], context: QuestionContext) -> list[Judged[Task]]:
        judged.append(len(tasks))
        return judge(tasks, context)

    monkeypatch.setattr(judging, "judge", count)
    made = made_set(PassageSource(request, catalog), catalog)
    rows = storage.query("select count(*) as n from tasks", catalog.home)[0]["n"]
    assert sum(judged) < rows, "what was judged before is in the set"
    entry = catalog.artifact(made)
    assert entry is not None
    before = (entry["path"] / TASKS).read_bytes()
    monkeypatch.setattr(make_module, "find_task_set", lambda *_: None)
    assert made_set(PassageSource(request, catalog), catalog) == made
    assert (entry["path"] / TASKS).read_bytes() == before


def test_too_few_questions_are_told_with_what_is_there(
    index: str, catalog: storage.Catalog
) -> None:
    with pytest.raises(NothingMade, match=r"of 500 questions passed .* --size \d+ makes these"):
        made_set(PassageSource(DocumentsRequest(index=index, size=500), catalog), catalog)
    assert not list(catalog.home.artifacts.glob("*.work"))
    plan = plan_document_set(DocumentsRequest(index=index, size=500), catalog)
    assert plan.candidates == 36 and plan.notes[0].startswith("12 documents, 12 passages")
    assert "fewer than the 500 asked for" in "\n".join(plan.lines)


def test_the_source_is_found_where_the_agents_tool_shows_it() -> None:
    """The default rank is the number of hits that the agent's search tool shows."""
    assert DocumentsRequest(index="index:1").rank == RESULTS_PER_SEARCH


def test_documents_without_a_sentence_to_ask_about(catalog: storage.Catalog) -> None:
    built = build_index([Passage("a", "Nothing here.", "A", "a")], catalog)
    with pytest.raises(NothingMade, match="none of the sentences of its 1 passages"):
        made_set(PassageSource(DocumentsRequest(index=str(built)), catalog), catalog)


def test_what_is_wrong_with_an_index_is_told(
    index: str, catalog: storage.Catalog, tmp_path: Path
) -> None:
    """The cases are an unknown index, a folder of documents, an index without its passages, and one
    without text."""
    index_id = json.loads((Path(index) / MANIFEST).read_text())["index_id"]
    blank = build_index([Passage("a", "  ", "A", "a")], catalog)
    cases = {
        "index:0": "there is no index 'index:0'; `tutti index FOLDER` builds one",
        str(tmp_path / "files"): "holds documents and no index",
        str(blank): "has no text in its 1 passages",
    }
    for named, words in cases.items():
        with pytest.raises(UsageError, match=words):
            made_set(PassageSource(DocumentsRequest(index=named), catalog), catalog)
    (Path(index) / "documents.jsonl").unlink()
    with pytest.raises(UsageError, match=r"no stored passages \(documents\.jsonl is missing\)"):
        made_set(PassageSource(DocumentsRequest(index=index_id), catalog), catalog)
    (Path(index) / MANIFEST).unlink()
    with pytest.raises(UsageError, match="its stored passages are gone"):
        made_set(PassageSource(DocumentsRequest(index=index_id), catalog), catalog)


@given(st.lists(st.text(max_size=8), max_size=12, unique=True))
def test_splits_follow_documents(names: list[str]) -> None:
    """Two documents give a test and a training split, three give all splits, and a single one is
    for test."""
    found = splits_of(names)
    assert set(found) == set(names)
    wanted = ("test", "train", "validation")[: len(names)]
    assert set(wanted) <= set(found.values())
