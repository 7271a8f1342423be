"""What a scorer is: a target and what an attempt came to in, a `Score` out.

A scorer declares its version, which changes whenever any answer could score otherwise, and what it
needs: nothing (`pure`), the sandbox, or a judge. A scorer that cannot do its work raises
`ScorerFailed`: that is a `scorer_error`, never a wrong answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tutti.errors import TuttiError
from tutti.tasks.agents import Score as Score

Needs = Literal["pure", "sandbox", "judge"]


class ScorerFailed(TuttiError, RuntimeError):
    """The scorer itself failed: a time-out, a judge without a verdict, a target that makes no
    sense."""


@dataclass(frozen=True)
class Attempted:
    """What an attempt came to."""

    answer: str | None
    """The final answer that the agent gave; None where it gave none."""
    text: str = ""
    """Its last message, whole."""
    messages: Sequence[Mapping[str, Any]] | None = ()
    """The conversation as OpenAI messages, for scorers of tool calls; None: not known yet."""
    state: Mapping[str, Any] | None = None
    """The environment's final state, where there is one."""
    imported: Score | None = None
    """The score that the harness which made the attempt gave it."""


class Runs(Protocol):
    """What scorers use of a sandbox (`tutti.tasks.sandbox.Sandbox`)."""

    async def run(self, code: str) -> Any:
        """Run a program; `.status` is ``ok``, ``timeout`` or ``error``, `.output` its output."""
        ...

    async def talk(self, asker: str, answerer: str) -> Any:
        """Have two programs speak; `.word` is the asker's last, None where one ended before it."""
        ...


class Asks(Protocol):
    """What scorers use of a judge."""

    async def ask(self, prompt: str, seed: int) -> tuple[str, str]:
        """The judge's text, and the id of the call that gave it."""
        ...


@dataclass(frozen=True)
class Means:
    """What a run can give its scorers."""

    sandbox: Runs | None = None
    judge: Asks | None = None


class Scorer(Protocol):
    """One way to score."""

    name: str
    version: str
    needs: Needs

    async def score(self, target: Mapping[str, Any], attempted: Attempted, means: Means) -> Score:
        """Score one attempt. `target` is the task's, as the benchmark's loader wrote it.

        Raises ScorerFailed.
        """
        ...
