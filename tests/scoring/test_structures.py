"""Tests of tool calls and final states: compared as JSON values, one to one."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.tasks.scoring import Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.rules.state import State, first_difference, same
from tutti.tasks.scoring.rules.tool_calls import ToolCalls, calls_made, match

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("expected", "actual", "path"),
    [
        ({"a": 1, "b": [1, 2]}, {"b": [1, 2.0], "a": 1.0}, None),
        ({"a": 1}, {"a": True}, "/a"),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, "/a/1/b"),
        ({"a": None}, {}, "/a"),
        ({}, {"x/y": 1}, "/x~1y"),
        ([1], [1, 2], "/1"),
        ("1", 1, "/"),
    ],
)
def test_first_difference(expected: Any, actual: Any, path: str | None) -> None:
    found = first_difference(expected, actual)
    assert (found["path"] if found else None) == path


@settings(deadline=None)
@given(VALUES)
def test_a_value_is_itself_after_json(value: Any) -> None:
    assert same(value, json.loads(json.dumps(value)))


def calling(*calls: tuple[str, Any]) -> Submission:
    listed = [
        {"id": str(i), "type": "function", "function": {"name": name, "arguments": arguments}}
        for i, (name, arguments) in enumerate(calls)
    ]
    return Submission(None, messages=[{"role": "assistant", "content": None, "tool_calls": listed}])


async def scored(attempted: Submission, *expected: dict[str, Any], **options: Any) -> Score:
    return await ToolCalls().score(
        {"calls": list(expected), **options}, attempted, ScoringResources()
    )


BOOK = {"name": "book", "arguments": {"city": "Bern", "seats": 2}}
PAY = {"name": "pay", "arguments": {}}


async def test_identical_calls_with_a_text_are_equal() -> None:
    """A reference system treated them as different because of an undefined name."""
    made = calling(("book", '{"seats": 2.0, "city": "Bern"}'), ("pay", ""))
    assert (await scored(made, PAY, BOOK)).correct
    assert not (await scored(made, PAY, BOOK, ordered=True)).correct
    assert (await scored(made, BOOK, PAY, ordered=True)).correct


async def test_one_call_answers_one() -> None:
    """A reference system let one call match several."""
    score = await scored(calling(("pay", "{}")), PAY, PAY)
    assert score.value == 0.5 and score.detail["missed"] == ["pay"]


async def test_no_calls_at_all() -> None:
    """A reference system counted one correct call where there was none."""
    assert (await scored(calling())).value == 1.0
    assert (await scored(calling(), PAY)).value == 0.0
    assert (await scored(calling(("pay", "{}")))).value == 0.0
    assert (await scored(calling(("pay", "{}")), extra="allowed")).value == 1.0


async def test_calls_that_are_not_known_are_not_wrong() -> None:
    """A harness's calls are still at the gateway when its attempt is scored; this is a scorer
    error."""
    unknown = Submission("done", messages=None)
    for expected in ([], [{"name": "a", "arguments": {}}]):
        with pytest.raises(ScorerFailed, match="tutti score"):
            await scored(unknown, *expected)


async def test_unreadable_arguments_match_nothing() -> None:
    score = await scored(calling(("pay", "{not json")), PAY)
    assert score.value == 0.0 and score.detail["unreadable"] == 1


async def test_accepted_values_and_optional_arguments() -> None:
    wanted = {
        "name": "go",
        "accepted": {"to": ["Bern", "Berne"], "by": ["rail"]},
        "optional": ["by"],
    }
    for arguments, correct in [
        ({"to": "Berne"}, True),
        ({"to": "Bern", "by": "rail"}, True),
        ({"to": "Bern", "by": "road"}, False),
        ({"by": "rail"}, False),
        ({"to": "Bern", "at": 9}, False),
    ]:
        assert (await scored(calling(("go", json.dumps(arguments))), wanted)).correct is correct


async def test_the_largest_matching_is_found() -> None:
    either = {"name": "go", "accepted": {"to": ["a", "b"]}}
    only = {"name": "go", "accepted": {"to": ["a"]}}
    assert (
        await scored(calling(("go", '{"to": "a"}'), ("go", '{"to": "b"}')), either, only)
    ).correct


@pytest.mark.parametrize("target", [{}, {"calls": [{}]}, {"calls": [], "extra": "maybe"}])
async def test_targets_that_make_no_sense(target: dict[str, Any]) -> None:
    with pytest.raises(ScorerFailed):
        await ToolCalls().score(target, calling(), ScoringResources())


@settings(deadline=None)
@given(st.lists(st.sampled_from("ab"), max_size=4), st.lists(st.sampled_from("ab"), max_size=4))
def test_matchings_against_brute_force(made: list[str], expected: list[str]) -> None:
    messages = calling(*((name, "{}") for name in made)).messages
    assert messages is not None
    calls = calls_made(messages)
    wanted = [{"name": name} for name in expected]

    def best(ordered: bool) -> int:
        size = min(len(made), len(expected))
        for count in range(size, 0, -1):
            for left in itertools.combinations(range(len(made)), count):
                for right in itertools.permutations(range(len(expected)), count):
                    alike = all(made[i] == expected[j] for i, j in zip(left, right, strict=True))
                    if alike and (not ordered or list(right) == sorted(right)):
                        return count
        return 0

    for ordered in (False, True):
        pairs = match(calls, wanted, ordered)
        assert len(pairs) == best(ordered)
        assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)


async def test_state() -> None:
    target = {"state": {"orders": [{"id": 7, "at": 1}]}, "ignore": ["/orders/0/at", "/clock"]}

    async def left(state: dict[str, Any] | None, **more: Any) -> Score:
        return await State().score(target | more, Submission(None, state=state), ScoringResources())

    assert (await left({"orders": [{"id": 7, "at": 2}], "clock": 3})).correct
    score = await left({"orders": [{"id": 8}]})
    assert score.detail["first_difference"]["path"] == "/orders/0/id"
    assert not (await left({"orders": [{"id": 7}], "log": []})).correct
    assert (await left({"orders": [{"id": 7}], "log": []}, only=True)).correct
    with pytest.raises(ScorerFailed):
        await left(None)
