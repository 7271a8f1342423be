"""Tests of the gates: a task must be solved by the oracle with the tools, and not by the no-op
agent."""

from collections.abc import Iterator

import aiohttp
import pytest
from aiohttp import web

from tutti.tasks.agents.tools.tool import ToolUnavailable
from tutti.tasks.agents.tools.toolbox import Toolbox
from tutti.tasks.sandbox import Sandbox
from tutti.tasks.sandbox.walls import strongest_level
from tutti.tasks.synthesis.families.task import question_task
from tutti.tasks.synthesis.gates import LIBRARY_GATES, LibraryContext, duplicate_reasons
from tutti.tasks.task_sets import Judged, Task, run_gates

TEXT = "heapq.nlargest\nmodule heapq\nkind function\ntakes 2\n1 n\n2 iterable"


def parameter_task(answer: str, position: str = "2", name: str = "heapq.nlargest") -> Task:
    question = f"What is parameter {position} of {name}?"
    return question_task(
        "parameter", question, answer, {"name": name, "position": position}, (name,), "test"
    )


async def judged(tasks: list[Task], status: int = 200) -> list[tuple[bool, str]]:
    """Run the gates for `tasks` with a search service that knows one document."""

    async def retrieve(request: web.Request) -> web.Response:
        query = (await request.json())["queries"][0]
        hit = {"document": {"id": "heapq.nlargest", "contents": TEXT}, "score": 1.0}
        hits = [hit] if query in TEXT else []
        return web.json_response({"result": [hits], "index_id": "index:1"}, status=status)

    app = web.Application()
    app.router.add_post("/retrieve", retrieve)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with aiohttp.ClientSession() as session:
            toolbox = Toolbox(session, url, Sandbox(strongest_level()))
            found = [Judged(task) for task in tasks]
            await run_gates(found, LIBRARY_GATES.values(), LibraryContext(toolbox))
            return [(each.reason is None, each.reason or "") for each in found]
    finally:
        await runner.cleanup()


async def test_solved_by_the_oracle_is_accepted() -> None:
    assert await judged([parameter_task("iterable")]) == [(True, "")]


async def test_a_wrong_answer_key_is_rejected_with_what_the_oracle_found() -> None:
    (verdict,) = await judged([parameter_task("key")])
    assert verdict == (False, "answered 'iterable'")


async def test_what_search_does_not_find_is_rejected() -> None:
    (verdict,) = await judged([parameter_task("x", name="heapq.merge")])
    assert verdict == (False, "not found: search did not return 'heapq.merge'")


async def test_a_task_without_content_is_solved_without_tools() -> None:
    """An empty answer needs no agent, so the no-op gate rejects the task."""
    task = question_task("expression", "What does '' print?", "", {"expression": "''"}, (), "test")
    assert await judged([task]) == [(False, "solved without tools")]


async def test_a_failing_tool_is_no_verdict() -> None:
    with pytest.raises(ToolUnavailable, match="HTTP 500"):
        await judged([parameter_task("iterable")], status=500)


def duplicates() -> Iterator[tuple[Task, str]]:
    """Yield tasks in order, with the expected reason of each."""
    yield parameter_task("iterable"), ""
    yield parameter_task("iterable"), "exact duplicate"
    reworded = parameter_task("iterable")
    yield (
        question_task("parameter", "Name parameter 2 of heapq.nlargest.", *_rest(reworded)),
        "near duplicate",
    )
    yield parameter_task("iterable", name="alias.nlargest"), "near duplicate"
    yield parameter_task("n", position="1"), ""


def _rest(task: Task) -> tuple[str, dict[str, str], tuple[str, ...], str]:
    return task.target["answer"], task.slots, task.sources, task.split


def test_duplicates_exact_and_near() -> None:
    tasks, expected = zip(*duplicates(), strict=True)
    assert duplicate_reasons(tasks) == list(expected)
