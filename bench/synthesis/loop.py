"""Tasks of a made set through the ordinary agent loop: a solver, an agent that does nothing, a
blind one.

In: a set's folder. Out: how many of each were scored right. The solver is the program's own, which
does not know the golden calls; each attempt has a sandbox of its own.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti.tasks.agents import AttemptLimits, Message, run_attempt
from tutti.tasks.agents.models import ChatModel, NoOpModel, OracleModel
from tutti.tasks.agents.models.model import Reply
from tutti.tasks.agents.tools import Environment
from tutti.tasks.benchmarks import Benchmark, Source, Task, load_prompt
from tutti.tasks.scoring import ScoringResources, Submission
from tutti.tasks.synthesis import PROGRAMS
from tutti.tasks.synthesis.domains import domain_benchmark

AT_ONCE = 4
LIMITS = AttemptLimits(turns=60)
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class LoopScores:
    """Attempts that were right, of `n` each."""

    n: int
    oracle: int
    no_op: int
    blind: int


class Parrot:
    """Says all that it is shown and calls nothing."""

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        step: int,
        positions: Sequence[int] | None = None,
    ) -> Reply:
        """Every message and every description."""
        shown = [str(each.get("content")) for each in messages]
        shown += [str(each["function"]) for each in tools]
        return Reply({"role": "assistant", "content": "\n".join(shown)}, "")


async def score_by_loop(program: str, folder: Path, limit: int) -> LoopScores:
    """The first `limit` tasks of a set, solo."""
    slots = asyncio.Semaphore(AT_ONCE)
    found = [_scores(program, benchmark, task, slots) for benchmark, task in _tasks(folder, limit)]
    scores = await asyncio.gather(*found)
    return LoopScores(len(scores), *(sum(column) for column in zip(*scores, strict=True)))


def _tasks(folder: Path, limit: int) -> Iterator[tuple[Benchmark, Task]]:
    left = limit
    for split in SPLITS:
        benchmark = domain_benchmark("domain", folder, split, solo=True)
        for task in benchmark.load(Source(split=split)):
            if left == 0:
                return
            left -= 1
            yield benchmark, task


async def _scores(
    program: str, benchmark: Benchmark, task: Task, slots: asyncio.Semaphore
) -> tuple[bool, bool, bool]:
    oracle = OracleModel(PROGRAMS[program].solve(task), "ANSWER")
    async with slots:
        made = [await _attempt(benchmark, task, each) for each in (oracle, NoOpModel(), Parrot())]
    return made[0], made[1], made[2]


async def _attempt(benchmark: Benchmark, task: Task, model: ChatModel) -> bool:
    assert benchmark.world is not None, "a domain has one"
    world = benchmark.world(task, None)
    try:
        prompt = load_prompt(benchmark.prompt).render(task)
        done = await run_attempt(prompt, model, Environment(world, world), LIMITS)
        state = world.outcome()
    finally:
        await world.close()
    given = Submission(done.answer, done.text, done.messages[len(prompt) :], state)
    score = await benchmark.scoring.score(task.target, given, ScoringResources())
    return score.value == 1.0
