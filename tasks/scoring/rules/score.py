"""The interface of scorers: a target and an attempt's submission in, a `Score` out.

A scorer's version changes whenever any answer could get another score. A scorer that cannot score
raises `ScorerFailed`: the attempt has a `scorer_error`, never a wrong answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from tutti.errors import TuttiError
from tutti.tasks.agents import Score as Score
from tutti.tasks.sandbox import CodeRunner

Needs = Literal["pure", "sandbox", "judge"]
Target = Mapping[str, Any]  # a task's target, as the benchmark's loader wrote it
T = TypeVar("T")


class ScorerFailed(TuttiError, RuntimeError):
    """The scorer itself failed: a time-out, a judge without a verdict, an invalid target."""


@dataclass(frozen=True)
class Submission:
    """The parts of an attempt that scorers read."""

    answer: str | None  # the agent's final answer; None if it gave none
    text: str = ""  # its complete last message
    messages: Sequence[Mapping[str, Any]] | None = ()
    """The conversation as OpenAI messages, for scorers of tool calls; None if not known yet."""
    state: Mapping[str, Any] | None = None  # the environment's final state, if it has one
    imported: Score | None = None  # the score reported by the harness that made the attempt

    @property
    def final_text(self) -> str:
        return self.text or self.answer or ""

    @property
    def conversation(self) -> Sequence[Mapping[str, Any]]:
        """The messages; an empty list is valid. Raises ScorerFailed if they are unknown."""
        if self.messages is None:
            raise ScorerFailed(
                "a harness made the attempt, and what it called is known once that is stored: "
                "`tutti score` reads it there"
            )
        return self.messages


@dataclass(frozen=True)
class JudgeSettings:
    """A publisher's settings of its judge. The settings in the judge's registry entry come
    first."""

    temperature: float | None = 1.0  # None: the request has none, as reasoning models need it
    max_tokens: int | None = None  # None: the run's default
    schema: Mapping[str, Any] | None = None  # a JSON schema that the reply must match; None: text


class JudgeClient(Protocol):
    """Interface of the judge model for scorers."""

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

    sandbox: CodeRunner | None = None
    judge: JudgeClient | None = None

    @property
    def code_runner(self) -> CodeRunner:
        """The sandbox. Raises ScorerFailed if there is none."""
        if self.sandbox is None:
            raise ScorerFailed("needs a sandbox")
        return self.sandbox

    @property
    def judge_client(self) -> JudgeClient:
        """The run's judge. Raises ScorerFailed if there is none."""
        if self.judge is None:
            raise ScorerFailed("needs a judge")
        return self.judge


class Scorer:
    """A method of scoring; one that needs no resources has only `evaluate`."""

    name: str
    version: str = "1"
    needs: Needs = "pure"

    async def score(
        self, target: Target, submission: Submission, resources: ScoringResources
    ) -> Score:
        """Score one attempt. Raises ScorerFailed."""
        return self.evaluate(target, submission)

    def evaluate(self, target: Target, submission: Submission) -> Score:
        """Score one attempt by target and submission only. Raises ScorerFailed."""
        raise NotImplementedError(f"{self.name} needs {self.needs}")

    def result(self, correct: bool, value: float | None = None, **fields: Any) -> Score:
        """A score of this scorer; `value` is 1 or 0 by `correct` if it is None."""
        value = float(correct) if value is None else value
        return Score(self.name, self.version, value, correct, **fields)


class Unscored(Scorer):
    """Marks a task whose answers are not scored; it is not in `SCORERS`."""

    name = "none"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        """Raises ScorerFailed."""
        raise ScorerFailed("none: these rows are not scored; name a scorer with --scorer")


UNSCORED = Unscored()


def needed(target: Target, key: str, kind: type[T]) -> T:
    """The target's `key`. Raises ScorerFailed if it is missing or not a `kind`."""
    value = target.get(key)
    if not isinstance(value, kind):
        known = type(value).__name__
        raise ScorerFailed(f"the target needs {key!r} as {kind.__name__}; it has {known}")
    return value


def texts(target: Target, key: str) -> list[str]:
    """The target's `key`: a text, or a non-empty list. Raises ScorerFailed."""
    value = target.get(key)
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not listed or not all(isinstance(x, str) for x in listed):
        raise ScorerFailed(f"the target needs {key!r} as a text or a list of texts")
    return listed
