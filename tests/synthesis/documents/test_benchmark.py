"""Tests of a question set as a benchmark: a solver that searches its index and reads the hits
scores 1, any other 0."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.conftest import NewCatalog
from tests.synthesis.documents.corpora import index_of, write_files
from tests.synthesis.documents.searching import searching
from tests.synthesis.made import made_set
from tutti import storage
from tutti.tasks.agents import AttemptLimits, run_attempt
from tutti.tasks.agents.models import ChatModel, NoOpModel, OracleModel
from tutti.tasks.agents.tools import Environment, SearchTool, Toolbox
from tutti.tasks.benchmarks import Benchmark, BenchmarkError, Source, Task, load_prompt
from tutti.tasks.platform.progress import StageLog
from tutti.tasks.sandbox import NO_WALLS, NoSandbox
from tutti.tasks.scoring import ScoringResources, Submission
from tutti.tasks.sweeps import SuiteError
from tutti.tasks.sweeps.plan import SearchService, TaskSet, library
from tutti.tasks.sweeps.plan.checks import refuse, search_faults
from tutti.tasks.sweeps.spec import Suite
from tutti.tasks.synthesis import DocumentsRequest, document_benchmark
from tutti.tasks.synthesis.documents.base.from_passages import solve
from tutti.tasks.synthesis.documents.judging import PassageSource
from tutti.tasks.task_sets import TASK, TASKS, read_tasks


@pytest.fixture
def catalog(
    tmp_path: Path, new_catalog: NewCatalog, monkeypatch: pytest.MonkeyPatch
) -> Iterator[storage.Catalog]:
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "store"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    with new_catalog(storage.Home(tmp_path / "store")) as opened:
        yield opened


@pytest.fixture
def index(tmp_path: Path, catalog: storage.Catalog) -> Path:
    return index_of(write_files(tmp_path / "files"), catalog)


def made(index: Path, catalog: storage.Catalog, **more: int) -> tuple[str, Path]:
    """Return a set's id and folder."""
    task_set = made_set(
        PassageSource(DocumentsRequest(index=str(index), size=15, **more), catalog), catalog
    )
    entry = catalog.artifact(task_set)
    assert entry is not None
    return task_set, entry["path"]


async def attempt(benchmark: Benchmark, task: Task, model: ChatModel, tools: SearchTool) -> float:
    """Return the score of one attempt with the tool `search`."""
    prompt = load_prompt(benchmark.prompt).render(task)
    done = await run_attempt(prompt, model, Environment(tools), AttemptLimits())
    said = Submission(done.answer, done.text, done.messages[len(prompt) :])
    score = await benchmark.scoring.score(task.target, said, ScoringResources())
    return score.value


async def test_who_searches_scores_1_and_who_does_not_0(
    index: Path, catalog: storage.Catalog
) -> None:
    """This holds in every split; the solver knows the question, not the answer."""
    _, folder = await asyncio.to_thread(made, index, catalog)
    tasks = {each.task_id: each for each in read_tasks(folder / TASKS, TASK)}
    seen = []
    async with searching(index) as url, aiohttp.ClientSession() as session:
        tools = SearchTool(Toolbox(session, url, NoSandbox(NO_WALLS)))
        for split in ("test", "validation", "train"):
            benchmark = document_benchmark("plant", folder, split)
            for task in benchmark.load(Source(split=split)):
                seen.append(task.key)
                oracle = OracleModel(solve(tasks[task.key]), "Answer: ANSWER")
                assert await attempt(benchmark, task, oracle, tools) == 1.0
                assert await attempt(benchmark, task, NoOpModel(), tools) == 0.0
    assert sorted(seen) == sorted(tasks)


async def test_the_gold_attempt_scores_1(index: Path, catalog: storage.Catalog) -> None:
    """Every benchmark with an answer has this test."""
    benchmark = document_benchmark("plant", (await asyncio.to_thread(made, index, catalog))[1])
    for task in benchmark.load(Source()):
        gold = benchmark.gold_attempt(task)
        assert (await benchmark.scoring.score(task.target, gold, ScoringResources())).correct
        assert task.attributes["kind"] in ("number", "name", "term")


async def test_a_suite_of_a_set_searches_the_sets_own_index(
    index: Path, catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index is served for the sweep, and the agent has the tool without a setting in the
    suite."""
    task_set, _ = await asyncio.to_thread(made, index, catalog)
    served = []

    class Service:
        """Fake of the process."""

        def __init__(self, place: Path, _: storage.Catalog) -> None:
            served.append(place)

        def __enter__(self) -> str:
            return "http://127.0.0.1:1"

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(library, "retrieval_service", Service)
    suite = Suite().with_fields({"benchmark": task_set})
    async with SearchService.of_suites((suite,), catalog, StageLog()) as opened:
        assert opened is not None and served == [index]
        assert opened.index_id == json.loads((index / "manifest.json").read_text())["index_id"]
    read = TaskSet.read(suite)
    assert read.benchmark.search_index is not None and not any(each.tools for each in read.tasks)


async def test_what_is_wrong_with_a_suite_of_a_set(
    index: Path, catalog: storage.Catalog, tmp_path: Path
) -> None:
    """Each error is one message: an unknown set, a superfluous user, two indexes at once, a bad
    line."""
    task_set, folder = await asyncio.to_thread(made, index, catalog)
    with pytest.raises(BenchmarkError, match="there is no task set 'task_set:0'"):
        TaskSet.read(Suite().with_fields({"benchmark": "task_set:0"}))
    with pytest.raises(BenchmarkError, match=r"data\.solo: task_set:"):
        TaskSet.read(Suite().with_fields({"benchmark": task_set, "solo": True}))
    suite = Suite().with_fields({"benchmark": task_set, "mcp": "serve"})
    tasks = TaskSet.read(suite)
    with pytest.raises(SuiteError, match=r"harness\.mcp: the agent of task_set-.* has the tool"):
        refuse(search_faults(suite, tasks.benchmark, tasks.tasks))
    other = index_of(write_files(tmp_path / "fewer", 11), catalog)
    two = [task_set, (await asyncio.to_thread(made, other, catalog, seed=1))[0]]
    suites = [Suite().with_fields({"benchmark": each}) for each in two]
    with pytest.raises(SuiteError, match="search different indexes; give each a suite"):
        async with SearchService.of_suites(suites, catalog, StageLog()):
            pass
    with pytest.raises(SuiteError, match=r"stdlib, task_set:.* search different indexes"):
        async with SearchService.of_suites((Suite(), suites[0]), catalog, StageLog()):
            pass
    file = folder / TASKS
    text = file.read_text()
    for wrong, why in (
        (text.replace('"template"', '"sort"', 1), r"tasks\.jsonl, line 1: sort: Unexpected"),
        (text.replace('"quote"', '"quoted"').replace('"source"', '"of"'), r"line 1: slots\.source"),
    ):
        file.write_text(wrong)
        with pytest.raises(BenchmarkError, match=why):
            list(document_benchmark("plant", folder).load(Source()))
