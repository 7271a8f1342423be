"""Tests of a teacher's question set about documents: the same gates, and nothing is paid for twice.

No strong model was available: the responses are hand-written in the API's format.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.conftest import NewCatalog
from tests.synthesis.documents.corpora import index_of, write_files
from tests.synthesis.teacher.conftest import QUICK
from tests.synthesis.teacher.scripted_endpoint import Raw, ScriptedEndpoint, serving
from tutti import storage
from tutti.flows.synthesize import synthesize_tasks
from tutti.tasks.retrieval import Passage
from tutti.tasks.synthesis import DocumentsRequest, TeacherPool, count_gates, plan_by_teacher
from tutti.tasks.synthesis.documents.base.corpus import open_corpus
from tutti.tasks.synthesis.documents.base.sentences import sentences_of
from tutti.tasks.synthesis.documents.by_teacher import TeacherPassageSource, parts_of
from tutti.tasks.synthesis.teacher import BudgetSpent, TeacherBudget, TeacherEndpoint, TeacherPrices
from tutti.tasks.task_sets import NothingMade, make_set


@pytest.fixture
def catalog(tmp_path: Path, new_catalog: NewCatalog) -> Iterator[storage.Catalog]:
    with new_catalog(storage.Home(tmp_path / "store")) as opened:
        yield opened


@pytest.fixture
def index(tmp_path: Path, catalog: storage.Catalog) -> str:
    return str(index_of(write_files(tmp_path / "files"), catalog))


def questions_of(passage: Passage) -> list[dict[str, str]]:
    """Return a teacher's four questions about a passage: two good ones, one about "the passage",
    and one with an invented quotation."""
    made, cleaned, stopped = sentences_of(passage.text)
    part = passage.source.removesuffix(".md")
    maker = made.plain.partition("made by ")[2].split()[0]
    hours = cleaned.plain.partition("after ")[2].split()[0]
    halt = f"halt-{part}"
    asked = [
        (f"Which company made the old {part} of the plant?", maker, made.raw),
        (f"After how many hours of steady work is a {part} cleaned?", hours, cleaned.raw),
        (f"Which command of the passage stops a burning {part}?", halt, stopped.raw),
        (f"Who painted the {part}?", maker, f"It was painted by {maker}."),
    ]
    names = ("question", "answer", "quote")
    return [dict(zip(names, each, strict=True)) | {"document": passage.id} for each in asked]


def script_of(index: str, catalog: storage.Catalog) -> dict[str, list[Any]]:
    """Return the teacher's response to each call about the plant's documents."""
    script: dict[str, list[Any]] = {}
    for place, (passage,) in enumerate(parts_of(open_corpus(index, catalog), 0)):
        items = questions_of(passage)
        script[f"documents-{place}-0"] = [{"items": items}, {"items": items[3:]}]
        script |= {f"documents-{place}-{turn}": [{"items": []}] for turn in (1, 2, 3)}
    return script


class TeacherSet(NamedTuple):
    """Result of a request."""

    task_set_id: str
    spent: str


async def made(
    endpoint: ScriptedEndpoint, catalog: storage.Catalog, index: str, **more: Any
) -> TeacherSet:
    where = TeacherEndpoint(endpoint.url, "m", call_s=5.0, retry=QUICK)
    request = DocumentsRequest(index=index, teacher="big", **{"size": 10, **more})
    pool = TeacherPool([where], [None], TeacherBudget(request.usd, request.calls))
    pool = replace(pool, concurrency=request.concurrency)
    source = await asyncio.to_thread(TeacherPassageSource, request, pool, catalog)
    return TeacherSet(await make_set(source, catalog), source.spent)


async def test_its_questions_pass_the_gates_and_are_a_set(
    index: str, catalog: storage.Catalog
) -> None:
    async with serving(ScriptedEndpoint(script_of(index, catalog))) as endpoint:
        found = await made(endpoint, catalog, index)
        calls = endpoint.calls()
        assert (await made(endpoint, catalog, index)).task_set_id == found.task_set_id
        assert endpoint.calls() == calls and found.spent.startswith(f"{calls} calls")
    entry = catalog.artifact(found.task_set_id)
    assert entry is not None and entry["detail"]["accepted"] == 10
    assert entry["detail"]["prompts"][0]["name"] == "documents"
    assert all("is not in" in why for _, why in entry["detail"]["teacher_rejects"])
    rows = storage.query("select * from tasks where status = 'accepted'", catalog.home)
    assert {row["template"] for row in rows} == {"teacher"} and len(rows) == 10
    (parses, *_) = count_gates(catalog.home, found.task_set_id)
    assert parses["dropped"] > 0 and "speaks of its passage" in parses["example"]
    assert not list(catalog.home.artifacts.glob("*.work"))


async def test_a_spent_budget_keeps_what_was_paid_for(index: str, catalog: storage.Catalog) -> None:
    """The next run continues, and no response is paid for twice."""
    async with serving(ScriptedEndpoint(script_of(index, catalog))) as endpoint:
        with pytest.raises(BudgetSpent, match="the budget of 3 calls is spent"):
            await made(endpoint, catalog, index, calls=3, concurrency=1)
        assert endpoint.calls() == 3
        await made(endpoint, catalog, index)
        assert max(endpoint.answered.values()) == 1


async def test_too_few_are_told_and_another_size_is_not_paid_again(
    index: str, catalog: storage.Catalog
) -> None:
    async with serving(ScriptedEndpoint(script_of(index, catalog))) as endpoint:
        with pytest.raises(NothingMade, match=r"no more passages to ask about.*--size 24 makes"):
            await made(endpoint, catalog, index, size=300)
        calls = endpoint.calls()
        found = await made(endpoint, catalog, index, size=24)
        assert endpoint.calls() == calls and found.spent.startswith("0 calls")


async def test_a_part_without_an_answer_is_told_and_the_others_go_on(
    index: str, catalog: storage.Catalog
) -> None:
    """The teacher refuses the part permanently; a failure of the endpoint stops the run."""
    script = script_of(index, catalog)
    script["documents-0-0"] = [Raw(refusal="No.")]
    async with serving(ScriptedEndpoint(script)) as endpoint:
        found = await made(endpoint, catalog, index)
    entry = catalog.artifact(found.task_set_id)
    assert entry is not None
    assert any("refusal" in why for _, why in entry["detail"]["teacher_rejects"])


def test_the_plan_counts_calls_tokens_and_dollars(index: str, catalog: storage.Catalog) -> None:
    request = DocumentsRequest(index=index, teacher="big", size=10)
    plan = plan_by_teacher(request, catalog, TeacherPrices(1.0, 2.0))
    assert plan.calls == 3 and plan.completion_tokens == 3 * 4 * 90 and plan.prompt_tokens > 300
    assert plan.usd == pytest.approx((plan.prompt_tokens + 2 * plan.completion_tokens) / 1e6)
    every = plan_by_teacher(request.model_copy(update={"size": 999}), catalog, None)
    assert every.calls == 12 and every.usd is None, "no more calls than there are parts"


@pytest.mark.slow
async def test_by_the_flow_through_a_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str, catalog: storage.Catalog
) -> None:
    """The teacher's calls are recorded with their role and belong to one program."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "store"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    models = tmp_path / "models.yaml"
    async with serving(ScriptedEndpoint(script_of(index, catalog))) as endpoint:
        entry = {"provider": "openai", "endpoint": endpoint.url, "context_tokens": 32_768}
        models.write_text(yaml.safe_dump({"models": {"big": entry | {"served_name": "m"}}}))
        request = DocumentsRequest(index=index, teacher="big", size=10)
        done = await synthesize_tasks.fn(request, models=models)
        calls = endpoint.calls()
    assert sum(row["n"] for row in done["counts"] if row["status"] == "accepted") == 10
    (row,) = storage.query("select role, count(*) as n, count(distinct attempt_id) as p from calls "
                           "group by all")  # fmt: skip
    assert (row["role"], row["n"], row["p"]) == ("teacher", calls, 1)
