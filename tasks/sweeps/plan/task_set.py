"""The task set that a suite measures: tutti's own, or a benchmark's tasks with their prompts.

A benchmark's tasks are read and selected each time, and entered in `tasks` once. A task set's id
depends on the content of its tasks, their prompt, and their scoring. The requirements of a
benchmark, or of a harness that tutti ships for it, are checked before anything starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import orjson

from tutti.storage import Catalog, artifact_id, commit, content_hash
from tutti.storage import catalog as cat
from tutti.tasks.agents import Agent, opening
from tutti.tasks.agents.commands import shipped_harness
from tutti.tasks.benchmarks import (
    Benchmark,
    Prompt,
    Source,
    first_prompt,
    load_prompt,
    parse_benchmark,
    select,
)
from tutti.tasks.scoring import UNSCORED
from tutti.tasks.sweeps.plan.checks import refuse, role_faults, task_faults
from tutti.tasks.sweeps.spec import Suite, SuiteError, open_named
from tutti.tasks.synthesis import read_split
from tutti.tasks.task_sets import Task


@dataclass(frozen=True)
class TaskSet:
    """The task set that a suite measures."""

    task_set_id: str
    benchmark: Benchmark
    """How its tasks are scored, and what surrounds an attempt."""
    tasks: tuple[Task, ...]
    """With the messages that attempts begin with."""

    @classmethod
    def read(cls, suite: Suite) -> "TaskSet":
        """Return a benchmark's set without entering it. Raises as `select_tasks`."""
        refuse(role_faults(suite))
        benchmark, prompt, tasks = select_tasks(suite)
        return _task_set(benchmark, prompt, tasks)

    @staticmethod
    def first_prompt(suite: Suite) -> str:
        """Return the first prompt as a model would get it. Raises as `select_tasks`."""
        benchmark, prompt, tasks = select_tasks(suite)
        return first_prompt(benchmark, tasks, prompt)

    @classmethod
    def made(cls, task_set_id: str, catalog: Catalog, suite: Suite) -> "TaskSet":
        """Return the split that a suite names of a set that tutti generated for it."""
        benchmark = open_named(suite.benchmark, suite.data)
        tasks = read_split(catalog, task_set_id, suite.data.split or benchmark.split)
        asked = (replace(each, messages=tuple(opening(each.inputs["question"]))) for each in tasks)
        return cls(task_set_id, benchmark, tuple(asked))

    def agent(self, task: Task) -> Agent:
        """Return the agent, whose final answer the benchmark's scorer extracts from the text."""
        if self.benchmark.is_boxed:
            return Agent()
        calls_answer = bool(task.tools) and self.benchmark.world is None
        return Agent(read_answer=lambda text: text or None, calls_answer=calls_answer)


def select_tasks(suite: Suite) -> tuple[Benchmark, Prompt, list[Task]]:
    """Return the suite's benchmark, its prompt, and the tasks it selects.

    Raises BenchmarkError (no such data, a bad row, a bad selection), SuiteError if none fits.
    """
    choice = parse_benchmark(suite.benchmark)
    data = suite.data
    benchmark = open_named(suite.benchmark, data)
    source = Source(choice.path or data.source, data.split, choice.revision)
    tasks = select(benchmark.load(source), suite.limit, data.ids, data.where)
    if not tasks:
        raise SuiteError(f"{benchmark.name}: no task fits the selection")
    is_shipped = shipped_harness(suite.command) is not None
    folder = benchmark.files(source).paths[0].parent if is_shipped else None
    refuse(task_faults(suite, benchmark, tasks, folder))
    return benchmark, load_prompt(data.prompt or benchmark.prompt), tasks


def enter_task_set(suite: Suite, catalog: Catalog) -> TaskSet:
    """Enter a benchmark's task set. Raises as `select_tasks`."""
    refuse(role_faults(suite))
    benchmark, prompt, tasks = select_tasks(suite)
    made = _task_set(benchmark, prompt, tasks)
    task_set_id = made.task_set_id
    if catalog.artifact(task_set_id) is None:
        rows = [
            {
                "task_set_id": task_set_id,
                "task_id": task.task_id,
                "family": benchmark.name,
                "question": asked if isinstance(asked, str) else orjson.dumps(asked).decode(),
                "answer": orjson.dumps(dict(task.target)).decode(),
                "slots": orjson.dumps({"id": task.key, **task.attributes}).decode(),
                "sources": [],
                "status": "accepted",
                "reason": "",
                "gated_at": cat.now(),
                "split": suite.data.split or "test",
            }
            for task in made.tasks
            for asked in (task.messages[-1].get("content"),)
        ]
        commit(catalog, {"tasks": rows})
        detail = {"benchmark": benchmark.name, "prompt": prompt.name, "accepted": len(tasks)}
        detail |= {"request": None, "licence": benchmark.licence, "scorer": benchmark.scorer}
        if benchmark.headline is not None:
            detail |= {"headline": benchmark.headline.detail()}
        if benchmark.subsets is not None:
            detail |= {"subsets": benchmark.subsets}
        if benchmark.own_scorer not in (None, UNSCORED):
            assert benchmark.file is not None, f"{benchmark.name}: its scorer is in a file"
            # `tutti score` finds the scorer there, from any folder.
            detail["file"] = str(benchmark.file.absolute())
        measured = parse_benchmark(suite.benchmark).task_set
        catalog.enter_artifact(task_set_id, detail, [] if measured is None else [measured])
    return made


def _task_set(benchmark: Benchmark, prompt: Prompt, selected: Sequence[Task]) -> TaskSet:
    tasks = tuple(replace(each, messages=tuple(prompt.render(each))) for each in selected)
    contents = [[each.task_id, content_hash(list(each.messages))] for each in tasks]
    task_set_id = artifact_id("task_set", [benchmark.name, benchmark.scorer, contents])
    return TaskSet(task_set_id, benchmark, tasks)
