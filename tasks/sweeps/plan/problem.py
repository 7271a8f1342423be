"""What a sample asks of an agent: how its conversation begins, its tools, how it is scored.

One form for tasks that tutti made and for items of public benchmarks, so that one runner serves
both.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tutti.tasks.agents import (
    AUTO,
    OFF,
    Agent,
    ChatModel,
    CommandTrajectory,
    Message,
    Trajectory,
    opening,
    separate,
)
from tutti.tasks.benchmarks import Benchmark, Item, Prompt, World
from tutti.tasks.scoring import EXACT, SCORERS, UNSCORED, Scorer, Submission
from tutti.tasks.synthesis import Task


@dataclass(frozen=True)
class Problem:
    """One task, ready to be attempted."""

    task_id: str
    messages: tuple[Message, ...]
    """What an attempt begins with."""
    scorer: str
    target: Mapping[str, Any]
    """What the scorer gets."""
    agent: Agent = field(default_factory=Agent)
    searches: bool = False
    """It has tutti's own tools, search and python."""
    searches_index: bool = False
    """It has the tool search alone, over the index that it is about."""
    offered: tuple[Mapping[str, Any], ...] = ()
    """Tools that are described to the model; to call them is its answer."""
    item_id: str = ""
    """The item's own id in its benchmark."""
    world: Callable[[ChatModel | None], World] | None = None
    """Makes what surrounds one attempt; it gets the model that plays the user, where one does."""
    has_strategies: bool = False
    """Whether an agent with an actor can name strategies in its world."""
    has_toolkit: bool = False
    """Whether its world runs a domain's toolkit, in the sandbox."""
    own_scorer: Scorer | None = None
    """The scorer, if it is not one of tutti's."""

    @property
    def is_scored(self) -> bool:
        """Whether its attempts get a score."""
        return self.own_scorer is not UNSCORED

    @property
    def scoring(self) -> Scorer:
        """The scorer itself."""
        return self.own_scorer or SCORERS[self.scorer]


def problem_of_task(task: Task) -> Problem:
    """A task that tutti made: the boxed answer must agree."""
    messages = tuple(opening(task.question))
    return Problem(task.task_id, messages, EXACT, {"answer": task.answer}, searches=True)


def problem_of_item(benchmark: Benchmark, prompt: Prompt, item: Item) -> Problem:
    """A benchmark's item: its scorer reads the last message, or what became of its world. Raises
    BadPrompt."""
    world = None if benchmark.world is None else partial(benchmark.world, item)
    agent = Agent(read_answer=_whole, calls_answer=bool(item.tools) and world is None)
    return Problem(
        item.task_id,
        tuple(prompt.render(item)),
        benchmark.scorer,
        item.target,
        agent,
        searches_index=benchmark.search_index is not None,
        offered=tuple(item.tools),
        item_id=item.id,
        world=world,
        has_strategies=benchmark.has_strategies,
        has_toolkit=benchmark.has_toolkit,
        own_scorer=benchmark.own_scorer,
    )


def attempted(trajectory: Trajectory, reasoning: str = AUTO) -> Submission:
    """What a scorer sees of a trajectory: not the prompt, whose calls are not the attempt's.

    `reasoning` is the suite's setting, by which the messages are separated already.
    """
    if isinstance(trajectory, CommandTrajectory):  # its messages are with the gateway
        answer = reply_in(trajectory.answer, reasoning)
        return Submission(answer, messages=None, imported=trajectory.imported)
    made = trajectory.messages[trajectory.prompt_messages :]
    return Submission(trajectory.answer, trajectory.text, made, trajectory.world_state)


def reply_in(answer: str | None, reasoning: str) -> str | None:
    """The reply in an answer that a harness gave: it need not have the end tag that the model's
    messages have."""
    parts = separate(answer or "", OFF if reasoning == OFF else AUTO)
    return answer if parts is None else parts[1] or None


def _whole(text: str) -> str | None:
    """The scorers of benchmarks find the answer in the text; no text is no answer."""
    return text or None
