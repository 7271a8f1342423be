"""The interface of scorers: a target and an attempt's submission in, a `Score` out.

A scorer declares its version, which changes whenever any answer could get another score, and what
it needs: nothing (`pure`), the sandbox, or a judge. A scorer that cannot score raises
`ScorerFailed`: that is a `scorer_error`, never a wrong answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tutti.errors import TuttiError
from tutti.tasks.agents import Score as Score
from tutti.tasks.sandbox import SandboxLimits

Needs = Literal["pure", "sandbox", "judge"]


class ScorerFailed(TuttiError, RuntimeError):
    """The scorer itself failed: a time-out, a judge without a verdict, an invalid target."""


@dataclass(frozen=True)
class Submission:
    """The parts of an attempt that scorers read."""

    answer: str | None
    """The agent's final answer; None if it gave none."""
    text: str = ""
    """Its complete last message."""
    messages: Sequence[Mapping[str, Any]] | None = ()
    """The conversation as OpenAI messages, for scorers of tool calls; None if not known yet."""
    state: Mapping[str, Any] | None = None
    """The environment's final state, if it has one."""
    imported: Score | None = None
    """The score reported by the harness that made the attempt."""


class CodeSandbox(Protocol):
    """The sandbox as scorers use it (`tutti.tasks.sandbox.Sandbox`)."""

    async def run(self, code: str, limits: SandboxLimits | None = None) -> Any:
        """Run a program; `.status` is ``ok``, ``timeout`` or ``error``, `.output` its output.
        Without `limits`, the sandbox's own hold."""
        ...

    async def talk(self, asker: str, answerer: str, limits: SandboxLimits | None = None) -> Any:
        """Connect two programs; `.word` is the asker's final message, None if a program ended
        before it. Without `limits`, the sandbox's own hold."""
        ...


@dataclass(frozen=True)
class JudgeSettings:
    """How a publisher asks its judge. What the judge's registry entry states comes first."""

    temperature: float | None = 1.0
    """None: the request has none, as models that reason want it."""
    max_tokens: int | None = None
    """None: the run's default."""
    schema: Mapping[str, Any] | None = None
    """A JSON schema that the reply must match; None: text."""


class JudgeClient(Protocol):
    """The judge model as scorers use it."""

    async def ask(
        self, prompt: str, seed: int, settings: JudgeSettings | None = None
    ) -> tuple[str, str]:
        """Ask the judge; returns its text and the id of the call. Without `settings`: the run's.

        Raises ModelCallFailed, with status 400 or 422 where a schema is not accepted, or
        ContextExceeded.
        """
        ...


@dataclass(frozen=True)
class ScoringResources:
    """The resources that a run provides to its scorers."""

    sandbox: CodeSandbox | None = None
    judge: JudgeClient | None = None


class Scorer(Protocol):
    """A method of scoring."""

    name: str
    version: str
    needs: Needs

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """Score one attempt. `target` is the task's target, as the benchmark's loader wrote it.

        Raises ScorerFailed.
        """
        ...
