"""Tests of Sotopia without Redis: its files, each side's knowledge, a conversation, and the seven
rating ranges."""

from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.conftest import Scripted, load, write_lines
from tests.scoring.conftest import ToldJudge
from tutti.tasks.benchmarks import BadRow, BenchmarkError, SourceMissing, Task, benchmark_named
from tutti.tasks.benchmarks.games.sotopia import DIMENSIONS, MAX_WORDS, Conversation
from tutti.tasks.benchmarks.user import BEGIN, DONE
from tutti.tasks.scoring import SCORERS, ScorerFailed, ScoringResources, Submission

PEOPLE: list[dict[str, Any]] = [
    {
        "pk": name,
        "first_name": name,
        "last_name": "Doe",
        "age": 40,
        "occupation": f"{name} job",
        "public_info": f"{name} cats",
        "personality_and_values": f"{name} calm",
        "secret": f"{name} hides",
    }
    for name in ("Ann", "Bob")
]


def written(folder: Path, standing: int = 0, **changed: Any) -> Path:
    """Write one scene with two people in the format of Sotopia's programs and return its path."""
    goals = ["Sell the lamp<extra_info>for 20 at least</extra_info>", "Buy the lamp"]
    scene = {"pk": "e", "scenario": "A market.", "agent_goals": goals, "relationship": standing}
    combination = {"pk": "c", "env_id": "e", "agent_ids": ["Ann", "Bob"]} | changed
    write_lines(folder / "agent_profiles.jsonl", PEOPLE)
    write_lines(folder / "environment_profiles.jsonl", [scene])
    write_lines(folder / "env_agent_combo_storages.jsonl", [combination])
    return folder


@pytest.mark.parametrize(
    ("standing", "known", "unknown"),
    [
        (0, [], ["Bob Doe", "Bob cats", "Bob calm", "Bob hides"]),
        (1, ["Bob Doe"], ["Bob cats", "Bob calm", "Bob hides"]),
        (2, ["Bob Doe", "Bob cats", "Bob job"], ["Bob calm", "Bob hides"]),
        (3, ["Bob Doe", "Bob cats", "Bob calm"], ["Bob hides"]),
        (5, ["Bob Doe", "Bob cats", "Bob calm"], ["Bob hides"]),
    ],
)
def test_what_one_knows(
    tmp_path: Path, standing: int, known: list[str], unknown: list[str]
) -> None:
    """Each side's knowledge depends on their relationship and never includes the other's secret or
    goal; the judge knows everything."""
    ann, bob = load("sotopia", written(tmp_path, standing))
    part = ann.inputs["part"]
    assert all(text in part for text in ["Ann hides", "Sell the lamp for 20 at least", *known])
    assert not any(text in part for text in ["Buy the lamp", *unknown])
    assert ann.target["partner"] == bob.inputs["part"] and "Buy the lamp" in bob.inputs["part"]
    asked = ann.target["question"]
    assert asked.index("Ann hides") < asked.index("Bob hides")
    assert (ann.key, bob.key) == ("c/0", "c/1")


def seats(folder: Path) -> tuple[Task, Task]:
    """Return both tasks of one scene."""
    first, second = load("sotopia", written(folder))
    return first, second


async def test_a_conversation(tmp_path: Path) -> None:
    """Seat 0 begins, seat 1 gets a message first, and the conversation is over when either
    leaves."""
    first, second = seats(tmp_path)
    model = Scripted("twenty?", DONE)
    one = Conversation(first, model)
    assert await one.begin() == BEGIN
    assert await one.reply("a lamp?") == "twenty?"
    assert model.prompts[0][0]["content"] == second.inputs["part"]
    assert await one.reply("thirty") is None and one.over()
    two = Conversation(second, Scripted("a lamp?"))
    assert await two.begin() == "a lamp?"
    assert await two.reply(DONE) is None
    assert (await two.use("leave", "{}")).error_type == "malformed_call"
    with pytest.raises(BenchmarkError, match="needs a model"):
        Conversation(first, None)


async def test_it_does_not_go_on_for_ever(tmp_path: Path) -> None:
    """The limit counts messages of both sides, whichever began."""
    for task in seats(tmp_path):
        world = Conversation(task, Scripted(*["well"] * MAX_WORDS))
        said = 0 if await world.begin() == BEGIN else 1
        while said < MAX_WORDS:
            said += 1
            if await world.reply("well") is None:
                break
            said += 1
        assert said == MAX_WORDS


async def test_seven_dimensions_in_their_ranges(tmp_path: Path) -> None:
    """The score is the publisher's: the mean of the seven unscaled ratings."""
    task, _ = seats(tmp_path)
    spoken = [{"role": "assistant", "content": "hello"}]
    attempted = Submission(None, "hello", spoken)
    sotopia = benchmark_named("sotopia")
    assert (sotopia.scorer, SCORERS[sotopia.scorer].version) == ("sotopia", "1")
    for place, value, scaled in ((0, -30 / 7, 0.0), (1, 40 / 7, 1.0)):
        says = [f"Verdict: {bounds[place]}" for bounds in DIMENSIONS.values()]
        for name, wanted in (("sotopia", value), (sotopia.rules["scaled"], scaled)):
            means = ScoringResources(judge=ToldJudge(says))
            score = await SCORERS[name].score(task.target, attempted, means)
            assert score.value == pytest.approx(wanted) and score.correct == bool(place)
            names = [each["text"].partition(":")[0] for each in score.detail["criteria"]]
            assert names == list(DIMENSIONS)
            ratings = [each["rating"] for each in score.detail["criteria"]]
            assert ratings == [bounds[place] for bounds in DIMENSIONS.values()]
    assert {name: bounds[:2] for name, bounds in DIMENSIONS.items()} == {
        "believability": (0, 10),
        "relationship": (-5, 5),
        "knowledge": (0, 10),
        "secret": (-10, 0),
        "social_rules": (-10, 0),
        "financial_and_material_benefits": (-5, 5),
        "goal": (0, 10),
    }


async def test_who_says_nothing_is_rated(tmp_path: Path) -> None:
    """A silent side is rated too, because a 0 would be better than the lowest rating."""
    task, _ = seats(tmp_path)
    judge = ToldJudge(["Verdict: 0"] * 7)
    silent = Submission(None, "", [{"role": "assistant", "content": " "}])
    score = await SCORERS["sotopia"].score(task.target, silent, ScoringResources(judge=judge))
    assert score.value == 0 and len(score.detail["criteria"]) == 7
    target = {**task.target, "criteria": [{"text": "is kind"}]}
    told = ScoringResources(judge=ToldJudge(["Verdict: yes"]))
    with pytest.raises(ScorerFailed, match="no range: 'is kind'"):
        await SCORERS["sotopia"].score(target, silent, told)


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    """Errors are raised for a combination with unknown parts, a missing file and an invalid
    relationship."""
    with pytest.raises(BadRow, match="env_id: no such environment"):
        load("sotopia", written(tmp_path / "a", env_id="x"))
    with pytest.raises(BadRow, match="agent_ids: not two"):
        load("sotopia", written(tmp_path / "b", agent_ids=["Ann", "Eve"]))
    with pytest.raises(BadRow, match="relationship: 7 is not 0 to 5"):
        load("sotopia", written(tmp_path / "c", standing=7))
    (written(tmp_path / "d") / "agent_profiles.jsonl").unlink()
    with pytest.raises(SourceMissing, match="agent_profiles"):
        load("sotopia", tmp_path / "d")
