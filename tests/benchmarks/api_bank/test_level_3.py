"""Tests of API-Bank's level 3, scored call by call, on a file in the published format."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.api_bank.test_session import found, level_3_call
from tests.benchmarks.conftest import load
from tutti.tasks.benchmarks import BadRow
from tutti.tasks.benchmarks.api_bank.level_3 import UNREAD_LIST
from tutti.tasks.benchmarks.api_bank.tools import SEARCHER


def write(folder: Path, *samples: list[dict[str, Any]]) -> None:
    """Write the file, with a request and a reply for each sample."""
    rows = [{"requirement": " do it", "response": f"done {n}"} for n in range(len(samples))]
    made = [row | {"apis": apis} for row, apis in zip(rows, samples, strict=True)]
    (folder / "test-data").mkdir(exist_ok=True)
    (folder / "test-data" / "level-3.json").write_text(json.dumps(made))


def test_each_call_follows_the_gold_ones(tmp_path: Path) -> None:
    """The history has the earlier gold calls with their results; the tools are the searcher and
    those that it has returned in this sample so far."""
    first = [level_3_call(SEARCHER, found("A", x="d"), keywords="k"), level_3_call("A", 7, x="1")]
    second = [level_3_call(SEARCHER, found("B"), keywords="b"), level_3_call("A", "ok")]
    write(tmp_path, first, second)
    tasks = load("api-bank-3-call", tmp_path)
    assert [task.key for task in tasks] == ["0#0", "0#1", "1#0", "1#1"]
    assert [task.attributes["sample"] for task in tasks] == ["0", "0", "1", "1"]
    assert [task.attributes["on_offer"] for task in tasks] == ["yes", "yes", "yes", "no"]
    offered = [[tool["function"]["name"] for tool in task.tools] for task in tasks]
    assert offered == [[SEARCHER], [SEARCHER, "A"], [SEARCHER], [SEARCHER, "B"]]
    assert tasks[0].given == [{"role": "user", "content": "do it"}]
    _, call, result = tasks[1].given
    assert call["tool_calls"][0]["function"]["name"] == SEARCHER
    assert json.loads(result["content"])["name"] == "A"
    target = tasks[1].target
    assert target["calls"] == [{"name": "A", "arguments": {"x": "1"}}]
    assert target["known"]["A"] == ["x"] and target["result"] == first[1]["output"]


def test_a_list_is_never_read(tmp_path: Path) -> None:
    """The publisher's parser turns a list into text, so the gold call fails its own check."""
    call = level_3_call("A", 7)
    call["input"] = {"x": ["a", "b"]}
    write(tmp_path, [call, level_3_call("A", 7, x="1")])
    one, other = load("api-bank-3-call", tmp_path)
    assert one.attributes["known_bad"] == UNREAD_LIST == one.target["calls"][0]["fails"]
    assert other.attributes["known_bad"] == "no" and "fails" not in other.target["calls"][0]


def test_the_reply_follows_all_calls(tmp_path: Path) -> None:
    """Each sample has one reply."""
    write(tmp_path, [level_3_call("A", 7, x="1")], [level_3_call("A", 8, x="2")])
    tasks = load("api-bank-3-response", tmp_path)
    assert [task.target for task in tasks] == [{"response": "done 0"}, {"response": "done 1"}]
    assert [message["role"] for message in tasks[0].given] == ["user", "assistant", "tool"]


@pytest.mark.parametrize(
    ("apis", "words"),
    [
        ([], r"level-3\.json:1: apis: holds no call"),
        ([{"api_name": "A", "input": {}, "output": {}}], r"output: is missing"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, apis: list[Any], words: str) -> None:
    """The error names file and field."""
    write(tmp_path, apis)
    with pytest.raises(BadRow, match=words):
        load("api-bank-3-call", tmp_path)
