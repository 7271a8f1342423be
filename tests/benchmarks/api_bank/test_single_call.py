"""Tests of API-Bank's single calls: the counts of its data, gold calls that its own APIs do not
confirm, and its dialogues as messages."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.conftest import load, write_lines
from tutti.tasks.benchmarks import BadRow, Task, select
from tutti.tasks.benchmarks.api_bank.gold import DRAWN, MEETING, NO_FAULT, RECORD, SCENE, SWITCH
from tutti.tasks.benchmarks.api_bank.single_call import Turn, messages_of, read_dialogue
from tutti.tasks.benchmarks.api_bank.tools import describe_tools

LEVELS = {1: "level-1-given-desc", 2: "level-2-toolsearcher"}


@pytest.mark.parametrize(("level", "files", "empty", "calls"), [(1, 214, 1, 389), (2, 50, 0, 119)])
def test_files_and_calls(data: Path, level: int, files: int, empty: int, calls: int) -> None:
    """There are 214 + 50 files, one of them empty, with 389 + 119 calls. The reference's evaluator
    counts 399 + 135, because it counts the second of two consecutive calls twice."""
    folder = data / "api-bank" / "lv1-lv2-samples" / LEVELS[level]
    dialogues = [read_dialogue(path) for path in sorted(folder.glob("*.jsonl"))]
    assert len(dialogues) == files
    assert sum(not dialogue.turns for dialogue in dialogues) == empty
    assert sum(len(dialogue.calls) for dialogue in dialogues) == calls
    tasks = load(f"api-bank-{level}", data / "api-bank", [])
    assert len(tasks) == len({task.key for task in tasks}) == calls
    assert all(len(task.target["calls"]) == 1 for task in tasks)


def test_gold_calls_that_their_apis_do_not_confirm(data: Path) -> None:
    """The rules identify the calls that failed when the APIs were run. Level 1 has 345 calls
    without a fault: 335 that passed in one session and 10 that needed a network. Level 2 has 64
    besides the searches, and all of them passed."""
    one, two = (load(f"api-bank-{level}", data / "api-bank", []) for level in (1, 2))
    faults = Counter(task.attributes["known_bad"] for task in one + two)
    assert faults == {NO_FAULT: 454, RECORD: 22, MEETING: 18, SWITCH: 8, SCENE: 5, DRAWN: 1}
    assert len(select(one, where="known_bad = 'no'")) == 345
    assert len(select(two, where="known_bad = 'no' and api <> 'ToolSearcher'")) == 64
    session = Counter(i.attributes["api"] for i in one if i.attributes["needs_session"] == "yes")
    assert session == {"ForgotPassword": 4, "GetUserToken": 2, "RegisterUser": 1}


def test_each_item_has_the_tool_that_it_must_call(data: Path) -> None:
    """Level 1 documents the tool and level 2 has searched for it, with every argument of the gold
    call. If the gold searches of level 2 never returned the API, the task says so."""
    missing = 0
    for level in LEVELS:
        for task in load(f"api-bank-{level}", data / "api-bank", []):
            (call,) = task.target["calls"]
            tools = {one["function"]["name"]: one["function"] for one in task.tools}
            missing += call["name"] not in tools
            assert (call["name"] in tools) == (task.attributes["on_offer"] == "yes")
            if call["name"] in tools:
                known = tools[call["name"]]["parameters"]["properties"]
                assert set(call["arguments"]) <= set(known), task.key
    assert missing == 13


def test_where_the_table_and_the_dialogues_disagree(data: Path) -> None:
    """APIs that the table describes differently are described by their calls."""
    calls = [
        (turn.name, turn.arguments or {})
        for path in (data / "api-bank/lv1-lv2-samples" / LEVELS[1]).glob("*.jsonl")
        for turn in read_dialogue(path).calls
    ]
    tools = describe_tools(data / "api-bank", calls)
    token, meeting = tools["GetUserToken"]["function"], tools["AddMeeting"]["function"]
    assert {"meeting_topic", "attendees"} <= meeting["parameters"]["properties"].keys()
    assert list(token["parameters"]["properties"]) == ["username", "password"]


def line(role: str, **parts: Any) -> dict[str, Any]:
    """Return a line of a dialogue."""
    return {"role": role, **parts}


def api(name: str, output: Any = "success", **arguments: str) -> dict[str, Any]:
    """Return the line of a call."""
    result = {"api_name": name, "input": arguments, "output": output, "exception": None}
    return line("API", api_name=name, param_dict=arguments, result=result)


def dialogue(folder: Path, rows: list[dict[str, Any]], level: int = 1) -> list[Task]:
    """Return the tasks of one constructed dialogue."""
    write_lines(folder / "lv1-lv2-samples" / LEVELS[level] / "One-level-1-1.jsonl", rows)
    return load(f"api-bank-{level}", folder, [])


def test_two_calls_in_a_row_are_two_items(tmp_path: Path) -> None:
    """The second call sees the first with its gold result: it is one session, and nothing is
    counted twice."""
    rows = [line("User", text="do"), line("AI", text="ok"), api("A", {"t": 1}), api("B", x="1")]
    first, second = dialogue(tmp_path, rows)
    assert first.given == [{"role": "user", "content": "do"}]
    assert [message["role"] for message in second.given] == ["user", "assistant", "tool"]
    assert second.given[1]["content"] == "ok"
    assert second.given[2]["content"] == '{"t": 1}'
    assert second.target["calls"] == [{"name": "B", "arguments": {"x": "1"}}]
    assert second.target["known"] == {"A": [], "B": ["x"]}


def test_gold_calls_that_fail_say_so(data: Path) -> None:
    """54 of 508 gold calls are rejected by their own API, and 7 more pass only after an earlier
    call. The target marks them, because the reference runs each call on fresh databases."""
    tasks = [i for n in (1, 2) for i in load(f"api-bank-{n}", data / "api-bank", [])]
    assert sum("fails" in task.target["calls"][0] for task in tasks) == 54 + 7


def test_replies_that_follow_a_call(data: Path) -> None:
    """There are 375 and 103 replies; each task's messages end with the call's result."""
    for level, count in ((1, 375), (2, 103)):
        tasks = load(f"api-bank-{level}-response", data / "api-bank", [])
        assert len(tasks) == count
        assert all(task.given[-1]["role"] == "tool" for task in tasks)


def test_dialogues_as_messages() -> None:
    """Consecutive lines of one speaker are merged into one message, each call has its result, and
    the assistant's last text, which belongs to the next call, is omitted."""
    turns = [
        Turn(1, "User", "a"),
        Turn(2, "AI", "b"),
        Turn(3, "AI", "c"),
        Turn(4, "User", "d"),
        Turn(5, "API", name="F", arguments={"x": "1"}, result="r"),
        Turn(6, "AI", "hint"),
    ]
    messages = messages_of(turns)
    assert [message["role"] for message in messages] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "tool",
    ]
    assert messages[1]["content"] == "b\nc" and messages[3]["content"] is None
    assert messages[3]["tool_calls"][0]["id"] == messages[4]["tool_call_id"]
    assert "hint" not in json.dumps(messages)


def test_level_2_offers_what_was_found(tmp_path: Path) -> None:
    """Only the searcher is available at first, then also the APIs that it returned."""
    parameter = {"type": "str", "description": "the day"}
    found = {"name": "Day", "description": "d", "input_parameters": {"of": parameter}}
    rows = [line("User", text="u"), api("ToolSearcher", found, keywords="day"), api("Day", of="x")]
    search, call = dialogue(tmp_path, rows, level=2)
    names = [[tool["function"]["name"] for tool in task.tools] for task in (search, call)]
    assert names == [["ToolSearcher"], ["ToolSearcher", "Day"]]


@pytest.mark.parametrize(
    ("row", "field"),
    [
        (line("Robot", text="x"), "role"),
        (line("User"), "text"),
        (line("API", api_name="A", result={"output": 1}), "param_dict"),
        (api("A") | {"result": {"output": 1, "exception": "no"}}, "result.exception"),
        (api("A") | {"result": {"exception": None}}, "result.output"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, row: dict[str, Any], field: str) -> None:
    """The error names file, line and field of a line in an invalid format."""
    with pytest.raises(BadRow, match=rf"One-level-1-1\.jsonl:2: {field}: "):
        dialogue(tmp_path, [line("User", text="u"), row])
