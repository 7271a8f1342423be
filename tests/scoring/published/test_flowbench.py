"""Tests of FlowBench: parameters and calls of a turn, success and progress of a session."""

from typing import Any

import pytest

from tests.scoring.conftest import ToldJudge
from tests.scoring.published.conftest import calling
from tutti.tasks.scoring import SCORERS, Score, ScoringResources, Submission
from tutti.tasks.scoring.published.flowbench import ASKS, read_result

GOLD = {"name": "book", "arguments": {"when": "May 3, 2024", "seats": 2, "note": ""}}
DONE = "Result: yes\nTotal number of goals: 2\nNumber of accomplished goals: 2"


async def turn(made: Submission, *says: str, judge: bool = True) -> tuple[Score, ToldJudge]:
    asked, name = ToldJudge(says), "flowbench_turn" if judge else "flowbench_turn_text"
    resources = ScoringResources(judge=asked)
    return await SCORERS[name].score({"calls": [GOLD]}, made, resources), asked


@pytest.mark.parametrize(
    ("given", "right_call", "right_parameters"),
    [
        ({"when": "May 3 2024", "seats": 2, "note": ""}, 1, 3),
        ({"when": "on May 3, 2024!", "seats": 2}, 1, 2),  # contained; an empty gold one is free
        ({"when": "may 3 2024", "seats": 2, "more": 1}, 1, 1),  # case is ignored for calls only
        ({"when": "May 3 2024", "seats": "2"}, 0, 1),  # another type
        ({"when": "May 3 2024"}, 0, 1),
        ({"when": "May 3", "seats": 2}, 0, 1),  # the gold one must be contained, not the other way
    ],
)
async def test_parameters_and_call(
    given: dict[str, Any], right_call: int, right_parameters: int
) -> None:
    score, _ = await turn(calling(("book", given)), judge=False)
    detail = score.detail
    assert (detail["right_calls"], detail["right_parameters"]) == (right_call, right_parameters)
    assert (detail["gold_parameters"], detail["predicted_parameters"]) == (3, len(given))
    assert score.correct is bool(right_call)


async def test_the_judge_decides_on_texts_that_differ() -> None:
    """The judge is called again until it replies yes or no, once for each parameter."""
    other = calling(("book", {"when": "3/5/24", "seats": 2}))
    score, judge = await turn(other, "maybe", "yes")
    assert score.correct and score.detail["right_parameters"] == 2 and judge.seeds == [0, 1]
    assert score.detail["votes"]["when"]["call_id"] == "call-2"
    score, judge = await turn(other, "no")
    assert not score.correct and len(judge.prompts) == 1
    score, judge = await turn(other, *["maybe"] * ASKS)
    assert score.correct and len(judge.prompts) == ASKS  # only a no makes it wrong, as there


async def test_the_name_matters_for_the_call_alone() -> None:
    score, _ = await turn(calling(("sell", GOLD["arguments"])), judge=False)
    assert (score.detail["right_calls"], score.detail["right_parameters"]) == (0, 3)
    score, _ = await turn(calling(), judge=False)
    assert score.detail["predicted_calls"] == 0 and not score.correct


async def test_a_turn_without_a_gold_call() -> None:
    scorer = SCORERS["flowbench_turn_text"]
    for made, correct in ((calling(), True), (calling(("book", {})), False)):
        score = await scorer.score({"calls": []}, made, ScoringResources())
        assert score.correct is correct and score.detail["gold_calls"] == 0


@pytest.mark.parametrize(
    ("text", "result"),
    [
        (DONE, (True, 1.0)),
        (DONE.replace("goals: 2", "goals: 4", 1), (True, 0.5)),
        ("Result: no\nTotal number of goals: 0", (False, 0.0)),
        ("I say\n" + DONE, (False, 1.0)),
    ],
)
def test_results_of_sessions(text: str, result: tuple[bool, float]) -> None:
    assert read_result(text) == result


async def test_a_session() -> None:
    """One call matches both gold ones; a reply in another format is requested again."""
    judge = ToldJudge(["well", DONE])
    target = {"calls": [GOLD, GOLD], "aim": "two seats", "workflow": "ask, book"}
    made = calling(("book", GOLD["arguments"]), ("book", {}))
    score = await SCORERS["flowbench_session"].score(target, made, ScoringResources(judge=judge))
    assert score.correct and score.detail["progress"] == 1.0 and judge.seeds == [0, 1]
    counts = [score.detail[f"{what}_calls"] for what in ("right", "gold", "predicted")]
    assert counts == [2, 2, 2]
    assert "two seats" in judge.prompts[0] and "call: book" in judge.prompts[0]
