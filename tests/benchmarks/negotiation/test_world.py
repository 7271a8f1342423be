"""Tests of whole negotiation attempts in the agent loop, with scripted models in place of
engines."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from tests.benchmarks.conftest import Scripted, load, write_lines
from tests.benchmarks.games.test_worlds import attempted as attempted_alone
from tests.benchmarks.negotiation.play import (
    Says,
    always,
    attempted,
    drawing,
    drawn_names,
    played,
    replay,
    scenarios,
)
from tutti.tasks.benchmarks import BadRow, Source, benchmark_named
from tutti.tasks.benchmarks.definition import DATA
from tutti.tasks.benchmarks.negotiation.demonstrations import conversations
from tutti.tasks.benchmarks.negotiation.drawing import KINDS, UNSEEN_KINDS, write_splits
from tutti.tasks.benchmarks.negotiation.scenario import Scenario
from tutti.tasks.benchmarks.negotiation.view import STRATEGIES

NEGOTIATION = benchmark_named("negotiation")
SELLS = Scenario("s", "buyer", 90, 30, 10, 95, 80, 5, "linear")
FIRST = Says(lambda prompt, choices: choices[0])
"""Takes the first of its choices: the highest demand."""


def says(strategy: str) -> Says:
    return Says(lambda prompt, choices: strategy)


async def test_strategist_and_actor_reach_a_deal() -> None:
    """The strategist's text is the conversation, the actor's calls are tool runs, and the cost of
    both is counted."""
    strategist = says("firm")
    done, world = await attempted(SELLS, strategist, FIRST)
    texts = [message["content"] for message in done.messages[1:]]
    assert texts == [
        "Strategies: hard 16-28, firm 34-40, fair 55-63, soft 68-76, close. "
        "They ask 80. Round 1 of 5.",
        "firm",
        "You bid 34. They ask 70. Round 2 of 5.",
        "firm",
        "You bid 34. They ask 60. Round 3 of 5.",
        "firm",
        "You bid 34. They ask 50. Round 4 of 5.",
        "firm",
        "You bid 34. They ask 40. Last round.",
        "firm",
        "You accept. Deal at 40.",
    ]
    acts = [run for run in done.tool_runs if run[1] == "act"]
    assert [run[3].content for run in acts] == ["offer 34"] * 4 + ["accept"]
    assert json.loads(acts[0][2])["strategy"] == "firm"
    assert world.outcome()["reward"] == pytest.approx(50 / 60)
    assert (done.status, done.steps) == ("ok", 5)
    assert done.cost_usd == pytest.approx(5 * 0.2) and done.held_s == 5.0
    assert sorted(done.call_ids.values()) == [f"call-{n}" for n in range(1, 6)]


async def test_the_prompt_of_a_strategist_only_grows() -> None:
    """A conversation is therefore one training sequence."""
    strategist = says("hard")
    await attempted(SELLS, strategist, FIRST)
    assert len(strategist.prompts) > 2
    for one, next_one in pairwise(strategist.prompts):
        assert next_one[: len(one)] == one


async def test_the_same_actor_earns_more_with_a_better_strategist() -> None:
    """The strategy restricts the actor's moves."""
    shares: dict[str, float] = {}
    for name in ("hard", "firm", "close"):
        done = [await attempted(each, says(name), FIRST) for each in scenarios(60)]
        shares[name] = fmean(world.outcome()["reward"] for _, world in done)
    assert shares["firm"] > shares["hard"] + 0.2 and shares["firm"] > shares["close"] + 0.4


async def test_no_one_is_told_the_others_limit() -> None:
    """Neither strategist nor actor sees the other side's limit before that side names it."""
    hidden = Scenario("s", "buyer", 90, 33, 10, 95, 80, 5, "boulware")
    strategist, actor = says("soft"), Says(lambda prompt, choices: choices[0])
    await attempted(hidden, strategist, actor)
    for prompt in (*strategist.prompts, *actor.prompts):
        assert all("33" not in message["content"] for message in prompt)


async def test_free_words_of_strategist_and_actor() -> None:
    """Without choices, a strategy in free text allows every move, and the actor's free text is
    parsed."""
    strategist = says("Go low, but stay polite")
    actor = Says(lambda prompt, choices: f"I say: {prompt.split('Moves: ')[1].split(', ')[0]}")
    done, world = await attempted(SELLS, strategist, actor, structured=False)
    assert done.status == "ok" and world.bargain.illegal["own"] == 0
    assert "Strategy: Go low, but stay polite" in actor.prompts[0][-1]["content"]
    assert world.bargain.moves[0] == ("own", "offer 16")


async def test_what_the_strategy_forbids_is_rejected() -> None:
    """After three rejections there is no deal."""
    done, world = await attempted(SELLS, says("firm"), says("accept"), structured=False)
    assert world.outcome() == {
        "reward": 0.0,
        "deal": None,
        "ended": "illegal",
        "moves": [],
        "illegal": 3,
    }
    assert done.messages[-1]["content"].endswith("does not allow 'accept'. No deal.")
    assert [run[3].status for run in done.tool_runs if run[1] != "act"] == ["error"] * 3


async def test_silence_is_an_illegal_move() -> None:
    _, world = await attempted(SELLS, says(" "), FIRST, structured=False)
    assert world.outcome()["ended"] == "illegal"


async def test_self_play_of_two_strategists() -> None:
    """The counterpart sees its own side, and its actor is restricted to its own moves."""
    user = says("fair")
    done, world = await attempted(SELLS, says("fair"), FIRST, user)
    opening = user.prompts[0]
    assert opening[0]["content"].startswith("You sell. Take at least 30.")
    assert opening[1]["content"].startswith("Strategies: hard ")
    assert "They bid 55. Round 2 of 5." in opening[1]["content"]
    assert world.bargain.deal is not None
    assert replay(SELLS, world.outcome()["moves"]).state == world.outcome()
    assert done.status == "ok"


async def test_a_counterpart_that_makes_no_move_voids_the_attempt() -> None:
    """The failure is not attributed to the measured party."""
    actor = says("offer 55")
    done, _ = await attempted(SELLS, says("fair"), actor, says(""), structured=False)
    assert (done.status, done.error_type) == ("infra_error", "tool_unavailable")


async def test_one_model_alone_writes_its_moves(tmp_path: Path) -> None:
    """This works without an agent, and the benchmark's scorer gives the share."""
    (task,) = load("negotiation", write_lines(tmp_path / "test.jsonl", [vars(SELLS)]))
    model = Scripted("well?", "offer 40", "offer 50", "accept")
    done, score = await attempted_alone("negotiation", task, model)
    assert "Each round write `offer PRICE`" in done.messages[1]["content"]
    assert "Not a legal move: write" in done.messages[3]["content"]
    assert score.value == pytest.approx(30 / 60) and not score.correct
    assert score.detail["deal"] == 60 and score.detail["illegal"] == 1
    assert score.detail["moves"][-1] == "own: accept"


def test_the_shipped_scenarios_are_the_drawn_ones(tmp_path: Path) -> None:
    """The files equal the output of the seed, no scenario is in two splits, and held-out kinds
    occur only in their own split."""
    write_splits(tmp_path)
    shipped = DATA / "negotiation"
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in shipped.iterdir()}
    seen: set[str] = set()
    for file in tmp_path.iterdir():
        assert file.read_bytes() == (shipped / file.name).read_bytes()
        tasks = list(NEGOTIATION.load(Source(split=file.stem)))
        content = {json.dumps({**task.target["scenario"], "id": ""}) for task in tasks}
        assert len(content) == len(tasks) and not content & seen
        seen |= content
        kinds = {task.attributes["kind"] for task in tasks}
        assert kinds == set(UNSEEN_KINDS if file.stem == "unseen" else KINDS)


def test_there_is_something_to_learn() -> None:
    """The figures of docs/negotiation.md for the split test are correct: random strategies and the
    best fixed one."""
    tasks = list(NEGOTIATION.load(Source()))
    every = [Scenario(**task.target["scenario"]) for task in tasks]
    names, draw = drawn_names(3), drawing(3)
    random = fmean(played(each, names, draw).share for each in every)
    firm = fmean(played(each, always("firm"), draw).share for each in every)
    assert 0.28 < random < 0.36 and 0.78 < firm < 0.84


@pytest.mark.parametrize(
    "wrong",
    [{"side": "both"}, {"kind": "kind"}, {"rounds": 0}, {"limit": 200}, {"other_limit": 95},
     {"opening": 20}, {"high": 5}],
)  # fmt: skip
def test_a_bad_row_is_named(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """The error names file, line and field."""
    path = write_lines(tmp_path / "test.jsonl", [vars(SELLS) | wrong])
    with pytest.raises(BadRow, match=f"test.jsonl:1: {next(iter(wrong))}: "):
        load("negotiation", path)


def test_demonstrations_have_the_form_of_an_attempt() -> None:
    """The strategist's demonstrations equal the prompts that it gets, and strategies are drawn
    uniformly."""
    every = list(conversations(times=1))
    assert len(every) == 400
    first, second = every[0][:2]
    assert first["content"].startswith("You ") and second["content"].startswith("Strategies: ")
    said = Counter(m["content"] for each in every for m in each if m["role"] == "assistant")
    assert set(said) == set(STRATEGIES)
    assert max(said.values()) < 1.3 * min(said.values())
    assert all(each[-1]["role"] == "assistant" for each in every)
