"""Scores the cheats: ``python -m tests.scoring.cheats.judge`` runs all of them on all targets.

The tests score all queries and proofs, and a sample of the programs: `SAMPLED` kinds per target,
taken consecutively from a list shuffled by `SEED`, so that all kinds occur equally often.
"""

import asyncio
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.scoring.cheats.programs import CHEATS, cheating
from tests.scoring.cheats.statements import GOLD, HEADER, PROOFS, QUERIES, THEOREM, make_database
from tests.scoring.cheats.targets import TARGETS
from tutti.tasks.sandbox import Sandbox, SandboxLimits
from tutti.tasks.sandbox.walls import strongest_level
from tutti.tasks.scoring import Score, ScoringResources, Submission
from tutti.tasks.scoring.lean.scorer import Lean4Strict
from tutti.tasks.scoring.rules.code import Code
from tutti.tasks.scoring.rules.sql import BirdMeasure, Sql

AT_ONCE = 2
LIMITS = SandboxLimits(seconds=3.0)
QUERY_S = 1.0
SAMPLED, SEED = 35, 32
SQL_SCORERS = (Sql(QUERY_S), BirdMeasure("bird_ex", QUERY_S), BirdMeasure("bird_soft_f1", QUERY_S))
Program = tuple[str, str]
"""A kind of cheat and the name of a target."""


def sample(name: str) -> list[Program]:
    """Return the programs that the tests score on a target."""
    kinds = random.Random(SEED).sample(list(CHEATS), len(CHEATS))
    first = list(TARGETS).index(name) * SAMPLED
    return [(kinds[(first + place) % len(kinds)], name) for place in range(SAMPLED)]


async def scored(sandbox: Sandbox, target: Mapping[str, Any], code: str) -> Score:
    """Return the score of a message that contains the code."""
    message = f"```python\n{code}\n```"
    means = ScoringResources(sandbox=sandbox)
    return await Code().score(target, Submission(None, message), means)


async def passing(sandbox: Sandbox, programs: Sequence[Program]) -> list[Program]:
    """Return the programs that are scored as correct; raise ScorerFailed if one has no score."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(kind: str, name: str) -> bool:
        async with room:
            target = TARGETS[name]
            return (await scored(sandbox, target.target, cheating(kind, target))).correct

    outcomes = await asyncio.gather(*(one(*program) for program in programs))
    return [program for program, correct in zip(programs, outcomes, strict=True) if correct]


async def passing_queries(folder: Path) -> list[tuple[str, str]]:
    """Return the queries that are scored as correct, with the scorer."""
    target = {"sql": GOLD, "database": str(make_database(folder / "it.sqlite"))}
    pairs = [(kind, scorer) for kind in QUERIES for scorer in SQL_SCORERS]
    scores = await asyncio.gather(
        *(
            scorer.score(target, Submission(None, QUERIES[kind]), ScoringResources())
            for kind, scorer in pairs
        )
    )
    outcomes = zip(pairs, scores, strict=True)
    return [(kind, scorer.name) for (kind, scorer), score in outcomes if score.correct]


class NoLean:
    """Replacement of Lean that must never be reached by refused proofs."""

    async def run(self, *_: Any) -> Any:
        """Fail, because it is never called."""
        raise AssertionError("Lean was to run a proof that cheats")

    talk = run


async def accepted_proofs() -> list[str]:
    """Return the proofs that our rule does not refuse."""
    target, means = {"header": HEADER, "statement": THEOREM}, ScoringResources(sandbox=NoLean())
    outcomes = {
        kind: await Lean4Strict().score(target, Submission(None, f"```lean4\n{code}\n```"), means)
        for kind, code in PROOFS.items()
    }
    return [kind for kind, score in outcomes.items() if score.detail["status"] != "refused"]


def statement_programs() -> Iterator[Program]:
    """Yield all queries with their scorers, and all proofs."""
    yield from ((kind, scorer.name) for kind in QUERIES for scorer in SQL_SCORERS)
    yield from ((kind, "lean4_strict") for kind in PROOFS)


async def judge_all() -> list[tuple[str, str]]:
    """Return all programs that are scored as correct."""
    sandbox = Sandbox(strongest_level(), LIMITS)
    found = [*await passing(sandbox, [(kind, name) for name in TARGETS for kind in CHEATS])]
    with TemporaryDirectory() as folder:
        found += await passing_queries(Path(folder))
    return found + [(kind, "lean4_strict") for kind in await accepted_proofs()]


if __name__ == "__main__":
    bought = asyncio.run(judge_all())
    programs = len(CHEATS) * len(TARGETS) + len([*statement_programs()])
    print(f"{programs} programs of {len(CHEATS) + len(QUERIES) + len(PROOFS)} kinds,", end=" ")
    print(f"{len(bought)} scored as right")
    for each in bought:
        print(*each)
    sys.exit(bool(bought))
