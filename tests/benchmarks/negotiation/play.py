"""Scripted strategists, and whole negotiations without a server."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from tests.agents.held import hold
from tests.agents.orchestrator.play import agent_file, expert
from tutti.tasks.agents.loop import Agent, AttemptLimits, Trajectory, run_attempt
from tutti.tasks.agents.models.model import Message, Reply
from tutti.tasks.agents.orchestrator import AgentFile, StrategistTurns
from tutti.tasks.agents.tools.tool import Environment
from tutti.tasks.benchmarks.negotiation.bargain import Bargain, answer
from tutti.tasks.benchmarks.negotiation.drawing import KINDS, UNSEEN_KINDS, drawn_scenario
from tutti.tasks.benchmarks.negotiation.scenario import Scenario
from tutti.tasks.benchmarks.negotiation.view import STRATEGIES, moves
from tutti.tasks.benchmarks.negotiation.world import NegotiationWorld

Choose = Callable[[Sequence[str]], str]
"""One of the legal moves."""
Name = Callable[[Bargain], str]
"""A strategy."""


def scenarios(count: int = 150, seed: int = 1) -> list[Scenario]:
    """Return scenarios with every kind of counterpart."""
    return [drawn_scenario(f"s{n}", seed, (*KINDS, *UNSEEN_KINDS)) for n in range(count)]


def played(scenario: Scenario, name: Name, choose: Choose) -> Bargain:
    """Return a finished negotiation with a programmed counterpart."""
    made = Bargain(scenario)
    while made.ended is None:
        made.play("own", choose(moves(scenario.own, name(made), made.standing["other"])))
        if made.ended is None:
            made.play("other", answer(scenario, made.offers).move)
    return made


def drawing(seed: int) -> Choose:
    """Return a function that chooses random moves."""
    draw = Random(seed)
    return lambda some: draw.choice(list(some))


def drawn_names(seed: int) -> Name:
    """Return a function that chooses random strategies."""
    draw = Random(seed)
    return lambda made: draw.choice(list(STRATEGIES))


def always(strategy: str) -> Name:
    """Return a function that names the same strategy in each round."""
    return lambda made: strategy


class Says:
    """Model whose text is the result of `reply` for its prompt and choices; its output can be
    restricted."""

    def __init__(self, reply: Callable[[str, Sequence[str]], str]) -> None:
        self.reply = reply
        self.choices: Sequence[str] = ()
        self.prompts: list[list[Message]] = []

    def choosing(self, choices: Sequence[str]) -> "Says":
        """Return the same model with these choices."""
        made = Says(self.reply)
        made.choices, made.prompts = choices, self.prompts
        return made

    async def complete(self, messages: Any, tools: Any, step: int, positions: Any = None) -> Reply:
        """Return the text that `reply` gives."""
        self.prompts.append([dict(message) for message in messages])
        text = self.reply(str(messages[-1]["content"]), self.choices)
        hold(0.5)
        return Reply({"role": "assistant", "content": text}, f"call-{step}", 9, 0, 2, 0.1)


def file(structured: bool = True) -> AgentFile:
    """Return an agent file with an actor."""
    act = {"description": "Move.", "experts": {"actor": expert("small")}}
    both = {"structured_moves": structured, "structured_strategies": structured}
    return agent_file(tools={"act": act | both})


async def attempted(
    scenario: Scenario,
    strategist: Says,
    actor: Says,
    user: Says | None = None,
    structured: bool = True,
) -> tuple[Trajectory, NegotiationWorld]:
    """Run one attempt in the agent loop and return its trajectory and world."""
    world = NegotiationWorld(scenario, user)
    experts = lambda expert: actor  # noqa: E731
    turns = StrategistTurns(file(structured), strategist, world, experts, experts)
    agent = Agent(read_answer=lambda text: text or None)
    prompt = [{"role": "system", "content": "Bargain."}]
    limits = AttemptLimits(turns=20)
    done = await run_attempt(prompt, turns, Environment(turns, turns), limits, agent)
    return done, world


def replay(scenario: Scenario, moves: Sequence[str]) -> Bargain:
    """The negotiation of recorded moves, written ``own: offer 40``. Raises ValueError if one is not
    legal."""
    made = Bargain(scenario)
    for each in moves:
        who, _, move = each.partition(": ")
        if made.ended is not None or who not in made.illegal:
            raise ValueError(f"{each!r}: not a move of this negotiation")
        made.play(who, move)
    return made
