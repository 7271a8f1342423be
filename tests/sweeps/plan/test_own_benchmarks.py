"""Tests of the user's own benchmarks: the examples of docs/own_benchmark.md run and are scored
again."""

import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import ValidationError

from tests.serving.engine_double import completion
from tests.sweeps.conftest import Agent, Sweep
from tests.sweeps.plan.test_benchmarks import plan_of
from tutti import storage
from tutti.tasks.benchmarks import BenchmarkError
from tutti.tasks.benchmarks.errors import BadBenchmarkFile
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.sweeps.analysis.rescore import rescore
from tutti.tasks.sweeps.plan.estimate import outlook_of
from tutti.tasks.sweeps.plan.plan import grid_id_of
from tutti.tasks.sweeps.plan.task_set import TaskSet, enter_task_set
from tutti.tasks.sweeps.spec.suite import Suite, SuiteError, read_suite

PAGE = (PROJECT / "docs" / "own_benchmark.md").read_text()
FILES = ("capitals.jsonl", "capitals.yaml", "sorting.py", "sorting.yaml")
CITIES = {"France": "Paris.", "Japan": "Tōkyō", "Peru": " Lima\n"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the page's four files, which is not the working directory."""
    blocks = re.findall(r"```(?:json|yaml|python)\n(.*?)```", PAGE, re.DOTALL)
    made = tmp_path / "mine"
    made.mkdir()
    for name, block in zip(FILES, blocks, strict=False):
        (made / name).write_text(block)
    monkeypatch.chdir(tmp_path)
    return made


def answer_with(reply: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the scripted endpoint answer each prompt with `reply(prompt)`."""

    async def answer(_: Any, __: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response(completion(reply(body["messages"][-1]["content"])))

    monkeypatch.setattr(Agent, "__call__", answer)


async def test_the_jsonl_example_is_measured(
    sweep: Sweep, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example's rows are sent with the template, compared, stored under the file's name, and
    scored again."""

    def reply(prompt: str) -> str:
        country = re.search(r"capital of (\w+)\? Reply with the name of the city only\.", prompt)
        assert country is not None, prompt
        return CITIES[country[1]]

    answer_with(reply, monkeypatch)
    suite = read_suite(folder / "capitals.yaml")
    plan = plan_of(suite, sweep.catalog)
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.counted, progress.correct, progress.total) == (3, 2, 3)
    asked = "select distinct c.benchmark, t.family, s.scorer from attempts a join cells c using "
    asked += "(cell_id) join tasks t on t.task_id = a.task_id join scores s using (attempt_id)"
    assert sweep.sql(asked) == [("capitals", "capitals", "exact")]
    found = await rescore(plan.sweep_id, sweep.catalog)
    assert (found.scored, found.flipped) == (3, [])


async def test_the_python_example_is_measured(
    sweep: Sweep, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example's own score is stored with the file's hash; an edited score function is applied
    to the stored answers."""
    answer_with(lambda prompt: " ".join(sorted(re.findall(r"\w+", prompt)[-3:])), monkeypatch)
    suite = read_suite(folder / "sorting.yaml")
    plan = plan_of(suite, sweep.catalog)
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.counted, progress.correct, progress.total) == (4, 4, 4)
    ((scorer, version),) = sweep.sql("select distinct scorer, scorer_version from scores")
    assert (scorer, len(version)) == ("sorting", 12)
    file = folder / "sorting.py"
    file.write_text(file.read_text().replace("return sum", "return 0.5 * sum"))
    edited = plan_of(suite, sweep.catalog)
    assert edited.sweep_id == plan.sweep_id
    (cell,) = outlook_of(edited, sweep.catalog).cells
    assert "not scored by sorting" in cell.reason
    monkeypatch.chdir("/")
    found = await rescore(plan.sweep_id, sweep.catalog)
    assert (found.scored, len(found.flipped)) == (4, 4)
    (cell,) = outlook_of(plan_of(suite, sweep.catalog), sweep.catalog).cells
    assert "not scored" not in cell.reason


async def test_a_score_that_fails_is_no_wrong_answer(
    sweep: Sweep, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt has a scorer_error with the file's line."""
    answer_with(lambda prompt: "a b c", monkeypatch)
    file = folder / "sorting.py"
    file.write_text(file.read_text().replace('target["words"], strict', 'target["word"], strict'))
    plan = plan_of(read_suite(folder / "sorting.yaml"), sweep.catalog)
    progress = await sweep.run(plan, sweep.enter(plan))
    assert progress.counted == 0
    ((status, words),) = sweep.sql("select distinct status, error_message from attempts")
    assert status == "scorer_error" and re.search(r"sorting\.py:27: score: KeyError", words), words


def test_selection_and_trials(folder: Path, catalog: storage.Catalog) -> None:
    """Tasks are selected by the other fields of a row; an edited file or another scorer is another
    task set."""
    suite = read_suite(folder / "capitals.yaml")
    assert suite.benchmark == str(folder / "capitals.jsonl") and suite.benchmark_name == "capitals"
    asia = suite.with_fields({"where": "continent = 'Asia'"})
    assert "capital of Japan?" in TaskSet.first_prompt(
        asia
    ) and "scorer exact" in TaskSet.first_prompt(asia)
    assert suite.with_fields({"benchmark": f"{suite.benchmark}:4"}).samples_of_each == 4
    judged = suite.with_fields({"scorer": "judge", "judge": "other"})
    before = [enter_task_set(each, catalog).task_set_id for each in (suite, asia, judged)]
    file = folder / "capitals.jsonl"
    file.write_text(file.read_text().replace("Lima", "Cusco"))
    assert len({*before, enter_task_set(suite, catalog).task_set_id}) == 4


def test_the_folder_is_in_no_id(folder: Path, catalog: storage.Catalog) -> None:
    """A moved file is the same benchmark."""
    suite = read_suite(folder / "capitals.yaml")
    moved = folder.rename(folder.with_name("moved"))
    folder.mkdir()
    (folder / "capitals.jsonl").write_text((moved / "capitals.jsonl").read_text())
    other = read_suite(moved / "capitals.yaml")
    assert suite.benchmark != other.benchmark
    assert plan_of(suite, catalog).sweep_id == plan_of(other, catalog).sweep_id
    grid = {"model": "pocket", "models": ("a", "b")}
    one, two = (grid_id_of(each.with_fields(grid)) for each in (suite, other))
    assert one == two is not None


def test_in_a_grid_each_part_reads_its_own_file(folder: Path) -> None:
    """The fields of `data` apply to the JSONL file only, `data.source` to the others."""
    names = (str(folder / "capitals.jsonl"), "gsm8k", str(folder / "sorting.py"))
    fields: dict[str, Any] = {"benchmarks": names, "scorer": "exact", "source": Path("data")}
    jsonl, public, python = Suite().with_fields(fields).parts()
    assert (jsonl.data.scorer, jsonl.data.source) == ("exact", None)
    assert (public.data.scorer, public.data.source) == (None, Path("data/gsm8k"))
    assert (python.data.scorer, python.data.source) == (None, Path("data/sorting"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"benchmark": "my.jsonl"}, "`data.scorer`: my.jsonl needs one: exact"),
        ({"benchmark": "my.jsonl", "scorer": "exakt"}, "'exact', 'numeric', 'math'"),
        ({"benchmark": "a/gsm8k.jsonl", "scorer": "exact"}, "gsm8k is a benchmark of tutti's"),
        ({"benchmark": "stdlib.py"}, "stdlib is a benchmark of tutti's"),
        ({"benchmark": "my.jsonl", "scorer": "exact", "source": "x"}, "is the data itself"),
        ({"benchmark": "gsm8k", "scorer": "exact"}, "data.scorer: for a .jsonl file, and gsm8k"),
        ({"benchmark": "my.py", "answer_field": "a"}, "data.answer_field: for a .jsonl file"),
        ({"benchmark": "?.jsonl", "scorer": "exact"}, "no letter from a to z"),
        ({"benchmarks": ("a/my.py", "b/my.py")}, "names a benchmark twice"),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any], words: str) -> None:
    """The error is raised before any file is opened."""
    with pytest.raises(ValidationError, match=words):
        Suite().with_fields(fields)


def test_a_missing_file_is_named(folder: Path, catalog: storage.Catalog) -> None:
    """The error says where a relative path starts; a removed class is reported in one line."""
    for name in ("capitals", "sorting"):
        suite = read_suite(folder / f"{name}.yaml")
        Path(suite.benchmark).unlink()
        with pytest.raises(BenchmarkError, match="a relative path starts at the suite file's"):
            enter_task_set(suite, catalog)
    (folder / "sorting.py").write_text("")
    with pytest.raises(BadBenchmarkFile, match="needs one class derived from"):
        TaskSet.first_prompt(read_suite(folder / "sorting.yaml"))


async def test_a_moved_file_scores_what_it_is_measured_with_again(
    sweep: Sweep, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First the error lists the places that were searched; a plan of the moved file stores its new
    place."""
    answer_with(lambda prompt: "a b c", monkeypatch)
    monkeypatch.chdir(folder)  # a relative path is entered as an absolute one
    relative = Suite(benchmark="sorting.py", policies=("passthrough",), concurrency=(2,))
    plan = plan_of(relative, sweep.catalog)
    await sweep.run(plan, sweep.enter(plan))
    moved = tmp_path / "moved"
    folder.rename(moved)
    monkeypatch.chdir("/")
    with pytest.raises(SuiteError, match=rf"there is no file .*{folder}/sorting\.py.*--scorer"):
        await rescore(plan.sweep_id, sweep.catalog)
    there = relative.model_copy(update={"benchmark": str(moved / "sorting.py")})
    again = plan_of(there, sweep.catalog)
    assert again.sweep_id == plan.sweep_id
    sweep.enter(again)
    assert (await rescore(plan.sweep_id, sweep.catalog)).scored == 4


async def test_a_score_that_is_gone_is_told(
    sweep: Sweep, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stored answers belong to a file that now names one of tutti's scorers."""
    answer_with(lambda prompt: "a b c", monkeypatch)
    plan = plan_of(read_suite(folder / "sorting.yaml"), sweep.catalog)
    await sweep.run(plan, sweep.enter(plan))
    own = "from tutti.tasks.benchmarks import OwnBenchmark\nclass S(OwnBenchmark): scorer = 'exact'"
    (folder / "sorting.py").write_text(own)
    with pytest.raises(SuiteError, match=r"sorting\.py: no longer has a method `score`"):
        await rescore(plan.sweep_id, sweep.catalog)
