"""Tests of API-Bank's checks: each argument by its API's rule, one kind of error for each wrong
call."""

from typing import Any

import pytest

from tests.scoring.published.conftest import calling
from tutti.tasks.scoring import SCORERS, Score, ScoringResources, Submission
from tutti.tasks.scoring.published.api_bank import words

AGENDA = {"token": "t1", "content": "Meet John at the office", "time": "2023-01-02 10:00:00"}
AGENDA |= {"location": "Office"}


async def scored(name: str, gold: dict[str, Any], made: Submission, **more: Any) -> Score:
    target = {"calls": [{"name": name, "arguments": gold, **more}]}
    return await SCORERS["api_bank_recorded"].score(target, made, ScoringResources())


@pytest.mark.parametrize(
    ("change", "error", "undecided"),
    [
        ({}, None, False),
        ({"content": "Meet John at the cafe"}, None, False),  # 4 of 6 words
        ({"content": "meet john at the office"}, "INPUT_MISMATCH", False),  # 3 of 7: case counts
        ({"location": "office"}, "INPUT_MISMATCH", False),
        ({"token": "t2"}, "INPUT_MISMATCH", True),  # its check ignores it, the API works with it
        ({"surplus": "1"}, "INVALID_INPUT_PARAMETER", False),
    ],
)
async def test_agenda(change: dict[str, str], error: str | None, undecided: bool) -> None:
    """The words of the content need a Jaccard index above one half; the other arguments must be
    equal."""
    score = await scored("AddAgenda", AGENDA, calling(("AddAgenda", AGENDA | change)))
    assert (score.correct, score.detail["error"]) == (error is None, error)
    assert score.detail["undecided"] is undecided


@pytest.mark.parametrize(
    ("name", "gold", "given", "correct"),
    [
        ("AddReminder", {"content": "Call Mum"}, {"content": "call mum"}, True),
        ("AddAlarm", {"time": "10:00"}, {"time": "10:00 "}, False),
        ("QueryStock", {"stock_code": "AAPL", "date": "2023-01-02"}, None, True),
        ("QueryStock", {"stock_code": "AAPL", "date": "2023-01-02"}, {"stock_code": "aapl"}, True),
        ("QueryStock", {"stock_code": "A", "date": "2023-01-02"}, {"date": "2023-01-03"}, False),
        ("QueryStock", {"stock_code": "A", "date": "no date"}, None, False),
        (
            "QueryBalance",
            {"token": "z9x8"},
            {"token": " z9x8 "},
            False,
        ),  # it strips none
        ("CancelRegistration", {"appointment_id": "7"}, {"appointment_id": " 7 "}, True),
        ("Calculator", {"formula": "1 + 2"}, {"formula": "1+2"}, True),
        ("BookHotel", {"room_count": "1"}, {"room_count": 1}, True),  # both are written '1'
        ("PlayMusic", {"music_name": "Hey"}, {"music_name": "hey"}, True),
        ("QueryHistoryToday", {"date": "03-04"}, {"date": "2021-03-04"}, True),
        ("ToolSearcher", {"keywords": "get user token"}, {"keywords": "GetUserToken"}, True),
    ],
)
async def test_rules_of_apis(
    name: str, gold: dict[str, Any], given: dict[str, Any] | None, correct: bool
) -> None:
    score = await scored(name, gold, calling((name, gold | (given or {}))))
    assert score.correct is correct, score.detail


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (calling(), "NO_API_CALL"),
        (calling(("AddAlarm", {})), "API_NAME_MISMATCH"),
        (calling(("GetToday", "no JSON")), "FAILED_PARSE_API_CALL"),
        (calling(("GetToday", {"a": 1})), "INVALID_INPUT_PARAMETER"),
        (calling(("GetToday", {}), ("AddAlarm", {})), None),  # the first call counts
    ],
)
async def test_kinds_of_errors(made: Submission, error: str | None) -> None:
    assert (await scored("GetToday", {}, made)).detail["error"] == error


async def test_a_gold_call_that_its_api_rejects_is_wrong() -> None:
    """A model that repeats the call is wrong, too, as in the publisher's program."""
    gold = {"name": "x"}
    made = calling(("QueryScene", gold))
    assert (await scored("QueryScene", gold, made)).correct
    assert not (await scored("QueryScene", gold, made, fails="its case differs")).correct
    absent = await scored("QueryScene", gold, calling(("QueryScene", {})))
    assert absent.detail["error"] == "MISS_INPUT_ARGUMENT"


async def test_a_session_is_right_if_no_call_is_missing() -> None:
    """The gold calls must occur in order, each by its API's check; other calls may be between
    them."""
    calls = [{"name": "AddAgenda", "arguments": AGENDA}, {"name": "GetToday", "arguments": {}}]
    scorer, target = SCORERS["api_bank_session"], {"calls": calls}
    near = AGENDA | {"content": "Meet John at the cafe"}
    made = calling(("AddAgenda", near), ("AddAlarm", {}), ("GetToday", {}))
    assert (await scorer.score(target, made, ScoringResources())).correct
    turned = calling(("GetToday", {}), ("AddAgenda", near))
    score = await scorer.score(target, turned, ScoringResources())
    assert not score.correct and score.value == 0.5


def test_words_are_split_at_single_spaces() -> None:
    assert words("a b c", "a b d") is False  # exactly one half
    assert words("a b c d", "a b c") is True
    assert words("a  b", "a b") is True and words("", "a") is False
