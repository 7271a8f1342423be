"""Tests of FlowBench's sessions on constructed rows in the published programs' format: the user,
the listed and generated API results, and the scored calls."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.conftest import Scripted, load, write_lines
from tutti.tasks.benchmarks import BadRow, BenchmarkError, Task, benchmark_named
from tutti.tasks.benchmarks.flowbench import MAX_CALLS, MAX_MESSAGES, FlowSession
from tutti.tasks.scoring import SCORERS, ScoringResources, Submission

FORMS = ("text", "code", "flowchart")

GOLD = (
    'Action: find\nAction Input: {"what": {"kind": "tea"}}\n\nAction: buy\nAction Input: {"n": 2}'
)
LISTED = 'Action: find\nAction Input: {"what": {"kind": "tea"}}\nfunction: {"price": 3}\n'


def row(**changed: Any) -> dict[str, Any]:
    """Return a session in the format of the published programs."""
    function = {
        "functions_with_response": [{"name": "buy", "response": {"properties": {"ok": {}}}}],
        "function_prompt": LISTED,
    }
    return {
        "apis": [
            {"name": "find", "parameters": {"what": {"type": "object"}}},
            {"name": "buy", "parameters": {"n": {"type": "integer"}}},
        ],
        "datetime": "2024-02-03 09:00",
        "user_agent": {"first_turn_hint": "greet", "every_turn_hint": "a tea drinker"},
        "function_agent": function,
        "user_target": "two teas",
        "gt_actions_string": GOLD,
    } | changed


def session(folder: Path, form: str = "text", **changed: Any) -> Task:
    write_lines(folder / "shop.jsonl", [row(**changed)])
    known = {each: f"as {each}" for each in FORMS}
    (folder / "knowledge.json").write_text(json.dumps({"shop": known}))
    (task,) = load(f"flowbench-{form}-session", folder)
    return task


async def value(task: Task, calls: list[tuple[str, dict[str, Any]]]) -> float:
    """Return the score of an attempt that made these calls."""
    made = [{"function": {"name": n, "arguments": json.dumps(a)}} for n, a in calls]
    messages = [{"role": "assistant", "content": None, "tool_calls": made}]
    scorer = SCORERS["tool_calls"]
    return (
        await scorer.score(task.target, Submission(None, "", messages), ScoringResources())
    ).value


@pytest.mark.parametrize("form", FORMS)
async def test_a_session_in_each_form(tmp_path: Path, form: str) -> None:
    """The prompt has the workflow in the requested form, only the user sees the persona, and the
    gold calls, whose arguments may be nested, are the target."""
    task = session(tmp_path, form)
    assert task.key == "shop/0" and f"as {form}" in task.inputs["workflow"]
    assert "2024-02-03 09:00" in task.inputs["workflow"]
    assert "tea drinker" not in json.dumps(dict(task.inputs))
    gold = benchmark_named(f"flowbench-{form}-session").gold_attempt(task)
    assert (await SCORERS["tool_calls"].score(task.target, gold, ScoringResources())).correct
    find, buy = ("find", {"what": {"kind": "tea"}}), ("buy", {"n": 2})
    assert await value(task, [find, buy]) == await value(task, [buy, find]) == 1.0
    assert await value(task, [find, buy, find]) == pytest.approx(2 / 3), "an extra call costs"
    assert await value(task, [find]) == 0.5, "one call stands for one gold call only"


async def test_listed_and_invented_answers(tmp_path: Path) -> None:
    """A listed call returns its listed result without a model; the result of another call is
    generated once and then reused, and a result that is not JSON is rejected."""
    model = Scripted("I want tea", '```json\n{"ok": true}\n```', "hm", "[DONE]")
    world = FlowSession(session(tmp_path), model)
    assert await world.begin() == "I want tea"
    assert "tea drinker" in model.prompts[0][0]["content"]
    listed = await world.use("find", '{"what": {"kind": "tea"}}')
    assert listed.content == '{"price": 3}' and len(model.prompts) == 1
    first, again = [await world.use("buy", '{"n": 2}') for _ in range(2)]
    assert first.content == again.content == '{"ok": true}' and len(model.prompts) == 2
    prompt = model.prompts[1][0]["content"]
    assert '"properties": {"ok": {}}' in prompt and 'gave {"price": 3}' in prompt
    broken = await world.use("buy", '{"n": 3}')
    assert broken.status == "error" and "did not answer" in broken.content
    assert not world.over() and await world.reply("it is done") is None and world.over()


async def test_its_bounds(tmp_path: Path) -> None:
    """A session ends at its limit of calls or messages, and without a model it does not start."""
    task = session(tmp_path)
    calling = FlowSession(task, Scripted())
    for _ in range(MAX_CALLS):
        assert not calling.over()
        await calling.use("find", '{"what": {"kind": "tea"}}')
    assert calling.over()
    talking = FlowSession(task, Scripted(*["go on"] * MAX_MESSAGES))
    said = 1
    await talking.begin()
    while await talking.reply("yes") is not None:
        said += 2
    assert said + 1 == MAX_MESSAGES
    with pytest.raises(BenchmarkError, match="needs a model"):
        FlowSession(task, None)


async def test_a_session_without_calls(tmp_path: Path) -> None:
    """The reference counts its empty text as one correct call; here no call is expected, and any
    call is wrong. A gold call with invalid input raises an error that names its place."""
    task = session(tmp_path, gt_actions_string="")
    assert task.target["calls"] == [] and await value(task, []) == 1.0
    assert await value(task, [("find", {})]) == 0.0
    with pytest.raises(BadRow, match=r"shop\.jsonl:1: gt_actions_string: find"):
        session(tmp_path, gt_actions_string='Action: find\nAction Input: {"a": }')
