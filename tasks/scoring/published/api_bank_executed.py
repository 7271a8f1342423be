"""API-Bank's published rules for a call: it is executed, and the API's own check decides.

The publisher's programs run in a process of their own (`deployments/harnesses/api_bank_calls.py`),
with the Python of an environment and the checkout that ``make api-bank API_BANK=CHECKOUT`` names;
``TUTTI_HARNESS_API_BANK`` and ``TUTTI_API_BANK`` name others. They are no sandbox's programs: they
need a folder, and some of them packages or a network. A call's arguments are data to them; none is
evaluated as code.

Target: as `tutti.tasks.scoring.published.api_bank`; ``known`` and ``fails`` are not read, because
the execution tells. The detail has ``error``, one of the publisher's nine kinds, ``OTHER`` for a
call that the publisher's program counts under none of them, or null; and ``why``.

``api_bank_3`` is the rule of level 3 (`lv3_evaluator.py`), whose target has the gold ``result``
too. What the tool searcher finds is decided by an embedding model; ``api_bank_3_words``, a rule of
ours, has pieces of words in its place, and is otherwise the same.
"""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tutti.tasks.agents import API_BANK
from tutti.tasks.scoring.children.workers import WorkerDied, WorkerLate, WorkerPool
from tutti.tasks.scoring.published.api_bank import NO_CALL, UNREADABLE
from tutti.tasks.scoring.score import Needs, Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.target import conversation, needed
from tutti.tasks.scoring.tool_calls import calls_made

TIMEOUT_S = 60.0  # a call takes 0.1 s; one that searches tools loads a model
MAX_WORKERS = 2  # each takes about 60 MB
CHECKOUT = "TUTTI_API_BANK"


def checkout() -> Path:
    """The checkout whose APIs are executed. Raises ScorerFailed if none is named, or if there is
    no Python to run them."""
    noted = API_BANK.python.parent.parent / "checkout"
    named = os.environ.get(CHECKOUT) or (noted.is_file() and noted.read_text("utf-8").strip())
    if not named or not API_BANK.python.exists():
        missing = f"Python at {API_BANK.python}" if named else f"checkout: {CHECKOUT} is not set"
        raise ScorerFailed(
            f"api_bank: executes the APIs of a checkout of DAMO-ConvAI, and there is no {missing}; "
            f"name both: `{API_BANK.install}`"
        )
    return Path(named)


@cache
def _pool_of(_process: int, command: tuple[str, ...]) -> WorkerPool:
    return WorkerPool(command, min(MAX_WORKERS, os.cpu_count() or 1))


class ApiBankExecuted:
    """API-Bank's evaluation of a call."""

    needs: Needs = "pure"

    def __init__(self, name: str = "api_bank", level: int = 1, by_words: bool = False) -> None:
        """`level`: 3, or 1 for levels 1 and 2; `by_words`: tools are searched without a model."""
        self.name, self.version = name, "1"
        self._of_level_3, self._options = level == 3, ("words",) * by_words

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """Right if the attempt's first call passes. Raises ScorerFailed for another target, where
        the environment is absent, and for a call that needs a package or model that it lacks."""
        expected = needed(target, "calls", list)
        if len(expected) != 1 or "arguments" not in expected[0]:
            raise ScorerFailed(f"{self.name}: the target needs one call with arguments")
        wanted = {"wanted": needed(target, "result", dict)} if self._of_level_3 else {}
        made = calls_made(conversation(submission))
        if not made:
            return self._score(NO_CALL, "")
        if made[0].arguments is None:
            return self._score(UNREADABLE, made[0].written)
        gold = {name: expected[0][name] for name in ("name", "arguments")}
        asked = {"gold": gold, "made": {"name": made[0].name, "arguments": made[0].arguments}}
        return await self._executed(asked | wanted)

    async def _executed(self, asked: Mapping[str, Any]) -> Score:
        command = (*API_BANK.words, str(checkout()), *self._options)
        try:
            told = await _pool_of(os.getpid(), command).ask(asked, TIMEOUT_S)
        except (WorkerDied, WorkerLate, OSError) as error:
            raise ScorerFailed(f"{self.name}: {API_BANK.program}: {error}") from error
        if "unscored" in told:
            raise ScorerFailed(f"{self.name}: {told['unscored']}")
        return self._score(told["error"], told["why"])

    def _score(self, error: str | None, why: str) -> Score:
        detail = {"error": error, "why": why}
        return Score(self.name, self.version, float(error is None), error is None, detail=detail)


EXECUTED: dict[str, ApiBankExecuted] = {
    each.name: each
    for each in (
        ApiBankExecuted(),
        ApiBankExecuted("api_bank_3", level=3),
        ApiBankExecuted("api_bank_3_words", level=3, by_words=True),
    )
}
"""By name."""
