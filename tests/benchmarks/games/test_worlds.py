"""Tests of worlds in the agent loop: attempts from the first message to the score."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.conftest import Scripted, load
from tutti.tasks.agents.loop import Agent, AttemptLimits, Trajectory, run_attempt
from tutti.tasks.agents.models.model import ChatModel, Message, Reply
from tutti.tasks.agents.tools.tool import Environment
from tutti.tasks.benchmarks import BENCHMARKS, Task, benchmark_named, load_prompt
from tutti.tasks.benchmarks.benchmark import tool_call
from tutti.tasks.scoring import SCORERS, Score, ScoringResources, Submission

LONG = AttemptLimits(turns=200)


async def attempted(
    name: str,
    task: Task,
    model: ChatModel,
    user: ChatModel | None = None,
    limits: AttemptLimits = LONG,
) -> tuple[Trajectory, Score]:
    """Run one attempt at `task` as a sweep does and return its trajectory and score."""
    benchmark = benchmark_named(name)
    assert benchmark.world is not None
    world = benchmark.world(task, user)
    prompt = load_prompt(benchmark.prompt).render(task)
    agent = Agent(read_answer=lambda text: text or None)
    try:
        done = await run_attempt(prompt, model, Environment(world, world), limits, agent)
        outcome = world.outcome()
    finally:
        await world.close()
    seen = Submission(done.answer, done.text, done.messages[len(prompt) :], outcome)
    return done, await SCORERS[benchmark.scorer].score(task.target, seen, ScoringResources())


class Gold:
    """Model that replays the recorded dialogue: its calls, and a message wherever the user comes
    next."""

    def __init__(self, task: Task) -> None:
        self._steps = list(task.target["script"])

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        step: int,
        positions: Sequence[int] | None = None,
    ) -> Reply:
        """Return the next move."""
        if not self._steps or "says" in self._steps[0]:
            self._steps = self._steps[1:]
            return Reply({"role": "assistant", "content": "very well"}, "")
        move = self._steps.pop(0)
        call = tool_call(f"c{step}", move["name"], move["arguments"])
        return Reply({"role": "assistant", "content": "", "tool_calls": [call]}, "")


@pytest.mark.parametrize(
    ("level", "answered", "right", "sessions"), [(1, 389, 212, 212), (2, 106, 49, 49)]
)
async def test_gold_dialogues_of_api_bank(
    data: Path, level: int, answered: int, right: int, sessions: int
) -> None:
    """Every dialogue ends and makes its gold calls. 13 of level 2's 119 calls use an API that its
    searches never returned, so it is unavailable to any caller."""
    name = f"api-bank-{level}-session"
    done = [await attempted(name, task, Gold(task)) for task in load(name, data / "api-bank", [])]
    assert {(each.status, each.stop_reason) for each, _ in done} == {("ok", "answered")}
    runs = [run for each, _ in done for run in each.tool_runs]
    assert sum(result.status == "ok" for *_, result in runs) == answered
    assert sum(score.correct for _, score in done) == right and len(done) == sessions


async def test_a_customer_is_served(data: Path) -> None:
    """In tau2's mock domain, the customer's lines are the user's messages, the call changes the
    database, the customer ends the dialogue, and the state is the gold one."""
    (task,) = (one for one in load("tau2-mock", data / "tau2") if one.key == "create_task_1")
    call = {"name": "create_task", "arguments": {"user_id": "user_1", "title": "Important Meeting"}}
    model, user = Scripted(call, "it is made"), Scripted("please make it", "[DONE]")
    done, score = await attempted("tau2-mock", task, model, user)
    roles = [message["role"] for message in done.messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]
    assert (done.status, done.stop_reason, score.correct) == ("ok", "answered", True)
    assert user.prompts[-1][-1] == {"role": "user", "content": "it is made"}


async def test_a_customer_who_is_not_done_at_the_turn_limit_was_not_served(data: Path) -> None:
    """The database has the gold state, and yet tau2's reward is 0."""
    (task,) = (one for one in load("tau2-mock", data / "tau2") if one.key == "create_task_1")
    call = {"name": "create_task", "arguments": {"user_id": "user_1", "title": "Important Meeting"}}
    model, user = Scripted(call, "it is made"), Scripted("please make it", "thanks; how are you?")
    limits = AttemptLimits(turns=2)
    done, score = await attempted("tau2-mock", task, model, user, limits)
    assert (done.status, done.stop_reason) == ("limit", "turns")
    assert not score.correct and score.detail["first_difference"]["path"] == "/ended"


@pytest.mark.filterwarnings("ignore:Game .* is not fully supported")
async def test_a_game_that_textworld_made(tmp_path: Path) -> None:
    """The game's own solution wins it in the agent loop, and the attempt ends with the game."""
    textworld = pytest.importorskip("textworld", reason="the package textworld is not installed")
    options = textworld.GameOptions()
    options.nb_rooms, options.nb_objects, options.seeds, options.quest_length = 2, 3, 1234, 2
    options.path = str(tmp_path / "one.z8")
    _, game = textworld.make(options)
    (task,) = load("textworld", tmp_path)
    moves = [{"name": "act", "arguments": {"command": c}} for c in game.metadata["walkthrough"]]
    done, score = await attempted("textworld", task, Scripted(*moves))
    assert (done.steps, score.value) == (len(moves), 1.0)
    assert json.loads(json.dumps(dict(score.detail))) == {"ended": True, "won": True, "lost": False}


def test_interactive_benchmarks() -> None:
    """Each benchmark declares the models it needs; only those without tools here are left to other
    harnesses."""
    left = {one.name for one in BENCHMARKS.values() if one.interactive and one.world is None}
    assert left >= {f"tau2-{name}" for name in ("airline", "banking", "retail", "telecom")}
    users = {one.name for one in BENCHMARKS.values() if one.needs_user}
    assert {"tau2-mock", "sotopia", "flowbench-code-session"} <= users
    acted = [one for one in BENCHMARKS.values() if one.needs_user]
    assert all(one.world is not None or one.command is not None for one in acted)
