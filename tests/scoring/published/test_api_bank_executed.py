"""Tests of API-Bank's rule by execution, on a small checkout in its format: nine kinds of errors,
and cases without a score. Calls run in their own process, which ends with its pool."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.scoring.published.conftest import calling
from tutti.tasks.agents.commands import API_BANK
from tutti.tasks.scoring import SCORERS, Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.children.workers import pool_of
from tutti.tasks.scoring.published import api_bank

MANAGER = """
class Note:
    parameters = {"text": "str", "day": "str", "n": "int"}

    def call(self, text, day, n=1):
        if day == "never":
            return self.told(text, day, None, "no such day")
        if day == "slow":
            import time
            time.sleep(60)
        print("APIs print")
        return self.told(text, day, f"{text.lower()} {n}", None)

    def told(self, text, day, output, exception):
        inputs = {"text": text, "day": day} if text != "lost" else {}
        return {"api_name": "Note", "input": inputs, "output": output, "exception": exception}

    def check_api_call_correctness(self, response, gold):
        if response["input"]["text"] == "stop":
            raise TypeError("stopped")
        same = response["input"] == gold["input"]
        gold["input"].pop("text")  # some checks change it
        return same and response["output"] == gold["output"]


class Search:
    parameters = {"keywords": "str"}

    def call(self, keywords):
        from sentence_transformers import SentenceTransformer
        try:
            SentenceTransformer("m")
        except Exception as error:
            return {"input": {}, "output": None, "exception": str(error)}

    def check_api_call_correctness(self, response, gold):
        return False


class ToolManager:
    def api_call(self, name, **given):
        for key in given:
            assert key in TOOLS[name].parameters, f"invalid parameter name. parameter: {key}"
        if "n" in given:
            assert given["n"].isdigit(), "invalid parameter type."
            given["n"] = int(given["n"])
        return TOOLS[name]().call(**given)

    def init_tool(self, name):
        return TOOLS[name]()


TOOLS = {"Note": Note, "Search": Search}
"""
PARSER = """
import re


def get_api_call(text):
    found = re.search(r"\\[(\\w+)\\((.*)\\)\\]", text)
    return found and found[0]


def parse_api_call(text):
    name, inside = re.search(r"\\[(\\w+)\\((.*)\\)\\]", text).groups()
    if "unreadable" in inside:
        raise ValueError(inside)
    return name, dict(re.findall(r"(\\w+)='(.+?)'", inside))
"""
GOLD = {"text": "Tea", "day": "1"}
RESULT = {"api_name": "Note", "input": GOLD, "output": "tea 1", "exception": None}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout, configured as a user does."""
    bank = tmp_path / "DAMO" / "api-bank"
    dialogues = bank / "lv1-lv2-samples" / "level-1-given-desc"
    dialogues.mkdir(parents=True)
    (bank / "tool_manager.py").write_text(MANAGER)
    (bank / "api_call_extraction.py").write_text(PARSER)
    turns = [
        {"role": "User", "text": "note tea"},
        {"role": "API", "api_name": "Note", "param_dict": GOLD, "result": RESULT},
        {"role": "API", "api_name": "Search", "param_dict": {"keywords": "k"}, "result": RESULT},
    ]
    (dialogues / "one.jsonl").write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    monkeypatch.setenv("TUTTI_HARNESS_API_BANK", sys.executable)
    monkeypatch.setenv("TUTTI_API_BANK", str(bank.parent))
    return bank


async def scored(made: Submission, name: str = "Note", gold: Any = GOLD) -> Score:
    target = {"calls": [{"name": name, "arguments": gold}]}
    return await SCORERS["api_bank"].score(target, made, ScoringResources())


@pytest.mark.parametrize(
    ("name", "given", "error"),
    [
        ("Note", GOLD, None),
        ("Note", GOLD | {"n": "1"}, None),  # what recorded arguments alone could not tell
        ("Note", GOLD | {"n": "2"}, "OUTPUT_MISMATCH"),
        ("Note", GOLD | {"text": "TEA"}, "INPUT_MISMATCH"),
        ("Note", GOLD | {"day": "never"}, "HAS_EXCEPTION"),
        ("Note", GOLD | {"surplus": "1"}, "INVALID_INPUT_PARAMETER"),
        ("Note", {"text": "Tea"}, "MISS_INPUT_ARGUMENT"),
        ("Note", GOLD | {"text": "lost"}, "KEY_ERROR"),
        ("Note", GOLD | {"text": "unreadable"}, "FAILED_PARSE_API_CALL"),
        ("Search", {"keywords": "k"}, "API_NAME_MISMATCH"),
        ("not a name", {}, "NO_API_CALL"),
        ("Note", GOLD | {"n": "x"}, "OTHER"),  # the publisher's program stops at these two
        ("Note", GOLD | {"text": "stop"}, "OTHER"),
    ],
)
async def test_each_kind_of_error(checkout: Path, name: str, given: Any, error: str | None) -> None:
    score = await scored(calling((name, given)))
    assert (score.correct, score.value) == (error is None, float(error is None))
    assert score.detail["error"] == error, score.detail["why"]


async def test_a_check_that_changes_the_gold_result_does_not_reach_the_next_call(
    checkout: Path,
) -> None:
    """The checks of three meeting APIs change the result: the same call twice is correct twice."""
    scores = [await scored(calling(("Note", GOLD))) for _ in range(3)]
    assert [score.correct for score in scores] == [True] * 3


async def test_what_needs_no_execution(checkout: Path) -> None:
    """The cases are no call, and arguments that are no JSON object."""
    none = await scored(calling())
    assert (none.correct, none.detail["error"]) == (False, "NO_API_CALL")
    broken = await scored(calling(("Note", "{")))
    assert broken.detail["error"] == "FAILED_PARSE_API_CALL"


async def test_what_cannot_be_scored(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing package, a gold call of other data and a missing checkout are errors, never wrong
    answers; nothing is written into the checkout."""
    with pytest.raises(ScorerFailed, match="Search needs the package sentence_transformers"):
        await scored(calling(("Search", {"keywords": "k"})), "Search", {"keywords": "k"})
    with pytest.raises(ScorerFailed, match=r"no dialogue of .* has the gold call Note"):
        await scored(calling(("Note", GOLD)), gold={"text": "other"})
    assert not list(checkout.rglob("__pycache__"))
    monkeypatch.setenv("TUTTI_API_BANK", str(checkout.parent.parent / "empty"))
    with pytest.raises(ScorerFailed, match=r"no tool_manager\.py: it is no checkout of API-Bank"):
        await scored(calling(("Note", GOLD)))
    monkeypatch.delenv("TUTTI_API_BANK")
    with pytest.raises(ScorerFailed, match=r"no checkout: TUTTI_API_BANK is not set; .*api-bank"):
        await scored(calling(("Note", GOLD)))


async def test_a_call_that_does_not_end(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call's process is killed, and the next call gets a new one."""
    monkeypatch.setattr(api_bank, "TIMEOUT_S", 1.0)
    with pytest.raises(ScorerFailed, match=r"api_bank_calls\.py: no answer within 1\.0 s"):
        await scored(calling(("Note", GOLD | {"day": "slow"})))
    command = (*API_BANK.words, str(checkout.parent))
    assert pool_of(command, api_bank.MAX_WORKERS).pids() == []
    monkeypatch.undo()
    monkeypatch.setenv("TUTTI_HARNESS_API_BANK", sys.executable)
    monkeypatch.setenv("TUTTI_API_BANK", str(checkout.parent))
    assert (await scored(calling(("Note", GOLD)))).correct
