"""Tests of BFCL's check: types, tolerated texts, optional arguments, greedy matching of parallel
calls."""

from typing import Any

import pytest

from tests.scoring.published.conftest import calling
from tutti.tasks.scoring import SCORERS, Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.published.bfcl import argument_fits


@pytest.mark.parametrize(
    ("value", "possible", "kind", "items", "fits"),
    [
        ("New York, N.Y.", ["new york ny"], "string", None, True),
        ("it's", ['it"s'], "string", None, True),
        ("Boston", ["New York"], "string", None, False),
        (3, [3.0], "float", None, True),
        (3.0, [3], "integer", None, False),
        (True, [1], "integer", None, False),
        (1, [True], "boolean", None, False),
        ("x_train", ["x_train"], "integer", None, True),  # a variable's name
        ("X train", ["x_train"], "integer", None, False),  # and compared as it is
        (["A b", "c"], [["ab", "C"]], "array", "string", True),
        (["c", "ab"], [["ab", "c"]], "array", "string", False),
        ([1, "a"], [[1, 2]], "array", "integer", False),
        ([], ["", [1]], "array", "integer", True),
        ({"a": "X y"}, [{"a": ["xy"], "b": ["", 1]}], "dict", None, True),
        ({"a": "z"}, [{"a": ["xy"], "b": [1]}], "dict", None, False),
        ({"a": 1}, [{"a": 1}], "dict", None, False),  # the answer lists no values
        ([{"a": 1}, {"a": 2}], [[{"a": [1]}, {"a": [2]}]], "array", "dict", True),
        ([{"a": 2}, {"a": 1}], [[{"a": [1]}, {"a": [2]}]], "array", "dict", False),
    ],
)
def test_values(value: Any, possible: list[Any], kind: str, items: str | None, fits: bool) -> None:
    assert argument_fits(value, possible, kind, items) is fits


FUNCTION = {"required": ["n"], "types": {"n": ["integer", None], "unit": ["string", None]}}
NEXT = {"name": "f", "possible": {"n": [1, 2], "unit": ["", "km"]}}
LAST = {"name": "f", "possible": {"n": [1], "unit": ["", "km"]}}


async def scored(category: str, calls: list[Any], made: Submission) -> Score:
    target = {"category": category, "calls": calls, "functions": {"f": FUNCTION}}
    return await SCORERS["bfcl_ast"].score(target, made, ScoringResources())


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (calling(("f", {"n": 2})), None),
        (calling(("f", {"n": 2, "unit": "K.M."})), None),
        (calling(("g", {"n": 2})), "wrong_func_name"),
        (calling(("f", {"unit": "km"})), "missing_required"),
        (calling(("f", {"n": 2, "m": 2})), "unexpected_param: m"),
        (calling(("f", {"n": 3})), "value_error: n"),
        (calling(("f", "no JSON")), "unreadable_arguments"),
        (calling(), "wrong_count: 0"),
        (calling(("f", {"n": 2}), ("f", {"n": 2})), "wrong_count: 2"),
    ],
)
async def test_one_call(made: Submission, error: str | None) -> None:
    assert (await scored("simple_python", [NEXT], made)).detail["error"] == error


async def test_an_argument_left_out_must_be_optional() -> None:
    must = {"name": "f", "possible": {"n": [1], "unit": ["km"]}}
    score = await scored("live_simple", [must], calling(("f", {"n": 1})))
    assert score.detail["error"] == "missing_optional: unit"


async def test_parallel_calls_are_matched_greedily() -> None:
    """Each expected call takes the first match, as in BFCL, so an order may fail that an optimal
    matching would accept."""
    right = calling(("f", {"n": 2}), ("f", {"n": 1}))
    turned = calling(("f", {"n": 1}), ("f", {"n": 2}))
    assert (await scored("parallel", [NEXT, LAST], right)).correct
    assert not (await scored("parallel", [NEXT, LAST], turned)).correct
    assert (await scored("parallel", [LAST, NEXT], turned)).correct


async def test_irrelevance_and_relevance() -> None:
    for category, right in (("live_irrelevance", False), ("live_relevance", True)):
        assert (await scored(category, [], calling(("f", {})))).correct is right
        assert (await scored(category, [], calling())).correct is not right


async def test_a_target_without_values_is_an_error() -> None:
    with pytest.raises(ScorerFailed):
        await scored("simple", [{"name": "f", "accepted": {}}], calling(("f", {})))
