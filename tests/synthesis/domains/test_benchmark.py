"""Tests of a domain's folder as a benchmark: in the agent loop, the golden calls score 1, and doing
nothing scores 0."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.benchmarks.conftest import Scripted
from tests.synthesis.domains.lending import lending_folder
from tutti.tasks.agents import AttemptLimits, ToolUse, run_attempt
from tutti.tasks.agents.models import ChatModel, NoOpModel, OracleModel
from tutti.tasks.agents.tools import Environment
from tutti.tasks.benchmarks import Benchmark, BenchmarkError, Source, Task, load_prompt
from tutti.tasks.scoring import Score, ScoringResources, Submission
from tutti.tasks.synthesis.domains import (
    DomainTask,
    changed_task,
    domain_benchmark,
    read_domain_folder,
)
from tutti.tasks.task_sets import write_tasks


def golden(task: DomainTask) -> Generator[ToolUse, str, str]:
    """Yield the golden calls, then all required texts."""
    for action in task.world.actions:
        yield ToolUse(action.name, action.arguments)
    return " and ".join(task.world.communicate)


async def attempt(
    benchmark: Benchmark, item: Task, model: ChatModel, user: Scripted | None = None
) -> Score:
    """Return the score of one attempt, made as a sweep does."""
    assert benchmark.world is not None
    made = benchmark.world(item, user)
    try:
        prompt = load_prompt(benchmark.prompt).render(item)
        done = await run_attempt(prompt, model, Environment(made, made), AttemptLimits())
        state = made.outcome()
    finally:
        await made.close()
    attempted = Submission(done.answer, done.text, done.messages[len(prompt) :], state)
    return await benchmark.scoring.score(item.target, attempted, ScoringResources())


async def test_the_oracle_scores_1_and_nothing_0(tmp_path: Path) -> None:
    """This holds solo in every split; the detail names the missing part."""
    tasks = {each.task_id: each for each in await lending_folder(tmp_path)}
    seen = []
    for split in ("train", "test"):
        benchmark = domain_benchmark("lending", tmp_path, split, solo=True)
        assert not benchmark.needs_user
        for item in benchmark.load(Source(split=split)):
            task = tasks[item.key]
            seen.append(item.key)
            oracle = OracleModel(golden(task), "ANSWER")
            assert (await attempt(benchmark, item, oracle)).value == 1.0
            idle = await attempt(benchmark, item, NoOpModel())
            assert idle.value == 0.0 and idle.detail["communicate"] == 0.0
            silent = changed_task(task, communicate=())
            quiet = await attempt(benchmark, item, OracleModel(golden(silent), "done ANSWER"))
            assert (quiet.detail["db"], quiet.detail["communicate"]) == (1.0, 0.0)
    assert sorted(seen) == sorted(tasks)


async def test_with_a_customer(tmp_path: Path) -> None:
    """The prompt is the policy; the scenario is given to the customer and never to the agent."""
    (task, *_) = await lending_folder(tmp_path)
    benchmark = domain_benchmark("lending", tmp_path, "train")
    assert benchmark.needs_user and benchmark.interactive
    (item,) = benchmark.load(Source(split="train"))
    prompt = load_prompt(benchmark.prompt).render(item)
    assert [each["role"] for each in prompt] == ["system"]
    assert "No loan lasts more than 30 days." in prompt[0]["content"]
    assert task.world.scenario.reason not in prompt[0]["content"]
    user = Scripted("seven more days, please: Ada Long", "[DONE]")
    score = await attempt(benchmark, item, OracleModel(golden(task), "you have ANSWER days"), user)
    assert score.value == 1.0
    assert task.world.scenario.known in user.prompts[0][0]["content"]


async def test_the_gold_attempt_scores_1(tmp_path: Path) -> None:
    """Every benchmark with an answer has this test."""
    await lending_folder(tmp_path)
    benchmark = domain_benchmark("lending", tmp_path)
    for item in benchmark.load(Source()):
        gold = benchmark.gold_attempt(item)
        assert (await benchmark.scoring.score(item.target, gold, ScoringResources())).correct


async def test_the_same_task_of_another_toolkit_is_another_task(tmp_path: Path) -> None:
    """The tools' code is part of a task's identity; the folder's path is not."""
    await lending_folder(tmp_path / "a")
    await lending_folder(tmp_path / "b")

    def ids(name: str) -> list[str]:
        items = domain_benchmark("lending", tmp_path / name).load(Source())
        return [item.task_id for item in items]

    assert ids("a") == ids("b")
    file = tmp_path / "b" / "toolkit.py"
    file.write_text(file.read_text().replace("> 30", "> 31"))
    assert not set(ids("a")) & set(ids("b"))


async def test_what_is_no_benchmark(tmp_path: Path) -> None:
    """The error is one message with the file: no domain there, an unknown split, a task without an
    expected state."""
    with pytest.raises(BenchmarkError, match=r"has no domain\.json"):
        domain_benchmark("x", tmp_path)
    await lending_folder(tmp_path)
    with pytest.raises(BenchmarkError, match="no split 'dev'"):
        list(domain_benchmark("x", tmp_path, "dev").load(Source(split="dev")))
    tasks = tmp_path / "tasks.jsonl"
    lines, known = tasks.read_text(), list(read_domain_folder(tmp_path)[1])
    tasks.write_text(lines.replace('"expected":"', '"was":"'))
    with pytest.raises(BenchmarkError, match=r"tasks\.jsonl, line 1: world\.was"):
        list(domain_benchmark("x", tmp_path).load(Source()))
    write_tasks(tasks, [changed_task(t, expected="") for t in known])
    with pytest.raises(BenchmarkError, match="expected: is empty"):
        list(domain_benchmark("x", tmp_path).load(Source()))
