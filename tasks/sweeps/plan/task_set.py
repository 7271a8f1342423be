"""The task set that a suite measures: tutti's own, or a benchmark's items with their prompts.

A benchmark's items are read and selected each time, and entered in `tasks` once; a task set's id is
the content of its tasks, of the prompt that they are rendered with, and of how they are scored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tutti.storage import Catalog, artifact_id, commit, content_hash
from tutti.storage import catalog as cat
from tutti.tasks.agents import shipped_harness
from tutti.tasks.benchmarks import (
    Benchmark,
    Item,
    Prompt,
    Source,
    first_prompt,
    load_prompt,
    parse_benchmark,
    select,
)
from tutti.tasks.scoring import UNSCORED
from tutti.tasks.sweeps.plan.by_shipped import check_executed, check_shipped, check_shipped_items
from tutti.tasks.sweeps.plan.problem import Problem, problem_of_item, problem_of_task
from tutti.tasks.sweeps.spec import STDLIB, Suite, SuiteError, open_named
from tutti.tasks.synthesis import read_tasks


@dataclass(frozen=True)
class TaskSet:
    """What a suite measures."""

    task_set_id: str
    problems: tuple[Problem, ...]


def read_items(suite: Suite) -> tuple[Benchmark, Prompt, list[Item]]:
    """The suite's benchmark, its prompt, and the items it selects.

    Raises BenchmarkError (no such data, a bad row, a bad selection), SuiteError where none fits.
    """
    asked = parse_benchmark(suite.benchmark)
    data = suite.data
    benchmark = open_named(suite.benchmark, data)
    source = Source(asked.path or data.source, data.split, asked.revision)
    items = select(benchmark.load(source), suite.limit, data.ids, data.where)
    if not items:
        raise SuiteError(f"{benchmark.name}: no item fits the selection")
    check_executed(benchmark, items)
    if shipped_harness(suite.command) is not None:
        check_shipped_items(suite, benchmark, items, benchmark.files(source).paths[0].parent)
    return benchmark, load_prompt(data.prompt or benchmark.prompt), items


def check_roles(suite: Suite) -> None:
    """See that a public benchmark has the models that it needs, and no others.

    Raises SuiteError, BenchmarkError.
    """
    benchmark = open_named(suite.benchmark, suite.data)
    harness, roles = suite.harness.command, suite.roles
    if shipped_harness(suite.command) is not None:
        check_shipped(suite, benchmark)
        return
    scorer = benchmark.scoring
    if scorer.needs == "judge" and roles.judge is None and harness is None:
        raise SuiteError(
            f"roles.judge: {benchmark.name} is scored by one; name a model of models.yaml"
        )
    if scorer.needs != "judge" and roles.judge is not None:
        raise SuiteError(
            f"roles.judge: {benchmark.name} is scored by {scorer.name!r}, which asks none"
        )
    if harness is None and benchmark.interactive and benchmark.world is None:
        raise SuiteError(
            f"benchmark: {benchmark.name} needs tools that answer, which are no part of its data; "
            "bring them with a harness of your own: `harness.command`"
        )
    if harness is None and benchmark.needs_user and roles.user is None:
        raise SuiteError(f"roles.user: {benchmark.name} needs one; name a model of models.yaml")
    if roles.user is not None and (harness is not None or not benchmark.needs_user):
        raise SuiteError(
            f"roles.user: nobody would ask it: {harness or benchmark.name} has no such part"
        )


def read_set(suite: Suite) -> TaskSet:
    """A benchmark's task set; nothing is entered. Raises as `read_items` and `check_roles`."""
    check_roles(suite)
    benchmark, prompt, items = read_items(suite)
    return _task_set(benchmark, prompt, items)


def enter_items(suite: Suite, catalog: Catalog) -> TaskSet:
    """Enter a benchmark's task set. Raises as `read_items` and `check_roles`."""
    check_roles(suite)
    benchmark, prompt, items = read_items(suite)
    made = _task_set(benchmark, prompt, items)
    task_set_id, problems = made.task_set_id, made.problems
    if catalog.artifact(task_set_id) is None:
        rows = [
            _row(task_set_id, benchmark, item, each) | {"split": suite.data.split or "test"}
            for item, each in zip(items, problems, strict=True)
        ]
        commit(catalog, {"tasks": rows})
        detail = {"benchmark": benchmark.name, "prompt": prompt.name, "accepted": len(items)}
        detail |= {"request": None, "licence": benchmark.licence, "scorer": benchmark.scorer}
        detail |= _reported(benchmark)
        if benchmark.own_scorer not in (None, UNSCORED):
            assert benchmark.file is not None, f"{benchmark.name}: its scorer is in a file"
            # `tutti score` finds the scorer there, from any folder.
            detail["file"] = str(benchmark.file.absolute())
        catalog.enter_artifact(task_set_id, detail, [])
    return made


def _reported(benchmark: Benchmark) -> dict[str, Any]:
    """What reports read of a benchmark; nothing for the share of right answers alone."""
    found: dict[str, Any] = {}
    if benchmark.headline is not None:
        found["headline"] = benchmark.headline.detail()
    if benchmark.subsets is not None:
        found["subsets"] = benchmark.subsets
    return found


def _task_set(benchmark: Benchmark, prompt: Prompt, items: Sequence[Item]) -> TaskSet:
    problems = tuple(problem_of_item(benchmark, prompt, item) for item in items)
    said = [[each.task_id, content_hash(list(each.messages))] for each in problems]
    return TaskSet(artifact_id("task_set", [benchmark.name, benchmark.scorer, said]), problems)


def made_tasks(task_set_id: str, catalog: Catalog, split: str | None = None) -> TaskSet:
    """A split of a task set that tutti made; the test split if not named."""
    tasks = read_tasks(catalog, task_set_id, split or "test")
    return TaskSet(task_set_id, tuple(problem_of_task(task) for task in tasks))


def dry_run(suite: Suite) -> str:
    """The first prompt as a model would get it. Raises as `read_items`."""
    if suite.benchmark == STDLIB:
        raise SuiteError("stdlib's tasks are made, not read: `tutti synth` shows them")
    benchmark, prompt, items = read_items(suite)
    return first_prompt(benchmark, items, prompt)


def _row(task_set_id: str, benchmark: Benchmark, item: Item, problem: Problem) -> dict[str, Any]:
    asked = problem.messages[-1].get("content")
    return {
        "task_set_id": task_set_id,
        "task_id": problem.task_id,
        "family": benchmark.name,
        "split": "test",
        "question": asked if isinstance(asked, str) else orjson.dumps(asked).decode(),
        "answer": orjson.dumps(dict(item.target)).decode(),
        "slots": orjson.dumps({"id": item.id, **item.attributes}).decode(),
        "sources": [],
        "status": "accepted",
        "reason": "",
        "gated_at": cat.now(),
    }
