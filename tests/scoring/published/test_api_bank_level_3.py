"""Tests of API-Bank's level 3 by execution, on a small checkout in its format: the deciding check,
the search of tools, and cases without a score."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scoring.published.conftest import calling
from tests.scoring.published.test_api_bank_executed import PARSER
from tutti.tasks.agents.commands import API_BANK
from tutti.tasks.scoring import SCORERS, Score, ScorerFailed, ScoringResources, Submission

MANAGER = """
from sentence_transformers import SentenceTransformer, util

LIBRARY = {"QueryMeeting": "retrieves a meeting", "Geocoding": "coordinates of an address"}


class Api:
    def __init__(self, name):
        self.name = name

    def call(self, **given):
        output = {"rooms": given["city"]} if given["city"] != "nowhere" else None
        exception = None if output else "no such city"
        return {"api_name": self.name, "input": given, "output": output, "exception": exception}

    def check_api_call_correctness(self, response, gold):
        if self.name == "Strict":
            assert response["api_name"] == gold["api_name"], "The API name is not correct."
            return response["output"]["rooms"] == gold["output"]["rooms"]
        return response["output"] == gold["output"]


class Searcher(Api):
    def check_api_call_correctness(self, response, gold):
        return response["output"] and response["output"]["name"] == gold["output"]["name"]

    def call(self, keywords):
        output = exception = None
        try:
            model, best = SentenceTransformer("small"), 0
            asked = model.encode(keywords)
            for name, text in LIBRARY.items():
                likeness = util.cos_sim(asked, model.encode(name.lower() + text)).item()
                if likeness > best:
                    output, best = {"name": name}, likeness
        except Exception as error:
            exception = str(error)
        return {"api_name": self.name, "input": {}, "output": output, "exception": exception}


class ToolManager:
    def __init__(self, folder="./apis"):
        assert folder == "./lv3_apis", folder

    def api_call(self, name, **given):
        if name not in ("Open", "Strict", "ToolSearcher"):
            raise Exception("invalid tool name.")
        assert set(given) <= {"city", "keywords"}, "invalid parameter name. parameter: x"
        return self.init_tool(name).call(**given)

    def init_tool(self, name):
        return Searcher(name) if name == "ToolSearcher" else Api(name)
"""
PARIS = {"city": "Paris"}
FAILING_PACKAGE = """
class util:
    pass


def SentenceTransformer(name):
    raise OSError("no network")
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout, configured as a user does."""
    (tmp_path / "tool_manager.py").write_text(MANAGER)
    (tmp_path / "api_call_extraction.py").write_text(PARSER)
    monkeypatch.setenv("TUTTI_HARNESS_API_BANK", sys.executable)
    monkeypatch.setenv("TUTTI_API_BANK", str(tmp_path))
    return tmp_path


async def scored(
    made: Submission, gold: tuple[str, dict[str, Any], Any], scorer: str = "api_bank_3"
) -> Score:
    """Return the score of a call for a `gold` call with name, arguments and output."""
    name, arguments, output = gold
    result = {"api_name": name, "input": arguments, "output": output, "exception": None}
    target = {"calls": [{"name": name, "arguments": arguments}], "result": result}
    return await SCORERS[scorer].score(target, made, ScoringResources())


@pytest.mark.parametrize(
    ("gold", "name", "given", "error"),
    [
        ("Open", "Open", PARIS, None),
        ("Open", "Open", {"city": "Rome"}, "OUTPUT_MISMATCH"),
        ("Open", "Open", {"city": "nowhere"}, "HAS_EXCEPTION"),
        ("Open", "Open", {"x": "1"}, "INVALID_INPUT_PARAMETER"),
        ("Open", "Strict", PARIS, None),  # the gold API's check decides, whatever was called
        ("Strict", "Open", PARIS, "API_NAME_MISMATCH"),
        ("Open", "Strict", {"city": "Rome"}, "API_NAME_MISMATCH"),
        ("Open", "Unknown", PARIS, "API_NAME_MISMATCH"),
        ("Strict", "Strict", {"city": "nowhere"}, "OTHER"),  # the publisher's program stops
        ("Open", "not a name", {}, "NO_API_CALL"),
    ],
)
async def test_the_gold_apis_check_decides(
    checkout: Path, gold: str, name: str, given: dict[str, Any], error: str | None
) -> None:
    """The gold API checks the call's result; the gold result comes from the target, not from the
    checkout."""
    score = await scored(calling((name, given)), (gold, PARIS, {"rooms": "Paris"}))
    assert (score.correct, score.scorer) == (error is None, "api_bank_3")
    assert score.detail["error"] == error, score.detail["why"]


@pytest.mark.parametrize(
    ("keywords", "right"),
    [("QueryMeeting", True), ("please find meetings", True), ("address", False), ("xyzzy", False)],
)
async def test_tools_are_searched_by_words(checkout: Path, keywords: str, right: bool) -> None:
    """The rule has its own name; capitals begin words, as in the publisher's program."""
    made = calling(("ToolSearcher", {"keywords": keywords}))
    gold = ("ToolSearcher", {"keywords": "QueryMeeting"}, {"name": "QueryMeeting"})
    score = await scored(made, gold, "api_bank_3_words")
    assert (score.correct, score.scorer) == (right, "api_bank_3_words")


async def test_a_search_without_its_model_is_no_wrong_answer(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds if the package is missing and if it cannot load the model; other calls are
    scored."""
    search = calling(("ToolSearcher", {"keywords": "k"}))
    gold = ("ToolSearcher", {"keywords": "k"}, {"name": "QueryMeeting"})
    with pytest.raises(ScorerFailed, match="ToolSearcher needs the package sentence_transformers"):
        await scored(search, gold)
    (checkout / "sentence_transformers.py").write_text(FAILING_PACKAGE)
    monkeypatch.setenv("PYTHONPATH", str(checkout))
    monkeypatch.setenv("TUTTI_API_BANK", f"{checkout}/../{checkout.name}")  # a process of its own
    with pytest.raises(ScorerFailed, match="ToolSearcher needs the model small"):
        await scored(search, gold)
    assert (await scored(calling(("Open", PARIS)), ("Open", PARIS, {"rooms": "Paris"}))).correct


async def test_a_target_without_a_result_is_refused(checkout: Path) -> None:
    """A target of levels 1 and 2 is an example."""
    target = {"calls": [{"name": "Open", "arguments": PARIS}]}
    with pytest.raises(ScorerFailed, match="'result'"):
        await SCORERS["api_bank_3"].score(target, calling(("Open", PARIS)), ScoringResources())


def _harness() -> ModuleType:
    spec = importlib.util.spec_from_file_location("api_bank_calls", API_BANK.words[1])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@given(st.text(), st.text())
def test_the_likeness_of_texts(one: str, other: str) -> None:
    """The similarity is from 0 to 1, symmetric, and 1 for a text with itself if it has a word."""
    trigrams = _harness().Trigrams
    a, b = trigrams.of(one), trigrams.of(other)
    assert 0 <= a.cosine(b) <= 1 + 1e-9 and abs(a.cosine(b) - b.cosine(a)) < 1e-9
    assert abs(a.cosine(a) - bool(a)) < 1e-9
