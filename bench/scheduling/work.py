"""The programs of the scheduling bench: how many calls, how long prompts and pauses, which words.

In: a set-up's sizes, a shape, a seed. Out: `Program`s, the same for the same seed. Sizes and pauses
depend on seed and block alone, so every arm of a block gets the same work; the words depend on the
arm too, so that no arm finds another's prefixes in the cache. Standard library only: the models
environment reads `WORDS` from here to make its tokenizer.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from random import Random

VERSION = 2
"""Increased when the same seed makes other programs: earlier records are then not reused."""
WORDS = tuple("".join(letters) for letters in product("bdfgklmnpt", "aeiou", "bdfgklmnprstvz"))
"""Each is one token of the bench's tokenizer, so lengths in words are lengths in tokens."""
ROLES = ("system", "user", "assistant")
TEMPLATE_TOKENS = 3
"""Tokens around each message: its start, role and end."""
MIXED_SIGMA = 0.45
MIXED_LIMITS = (0.45, 1.8)
"""Smallest and largest program of the shape `mixed`, relative to the mean: a ratio of 1 to 4,
within the engine's context."""
HEAVY_SIGMA = 1.8
"""Sigma of the lognormal pauses of `heavy`: the 99th percentile is thirteen times the mean."""
HEAVY_LIMIT = 30.0
"""Longest pause in means, so that one program does not determine a cell's duration."""

Message = dict[str, str]


@dataclass(frozen=True)
class Sizes:
    """The sizes of a set-up's programs."""

    calls: int
    first_tokens: int
    """Tokens of the first prompt."""
    last_tokens: int
    """Tokens of the last call's prompt."""
    answer_tokens: int
    pause_low_s: float
    """Shortest tool run; with `pause_high_s` 0 the pauses are exponential instead."""
    pause_high_s: float
    pause_mean_s: float

    @property
    def growth_tokens(self) -> int:
        """Growth from one prompt to the next, including the answer and the template."""
        return round((self.last_tokens - self.first_tokens) / (self.calls - 1))

    @property
    def mean_tokens(self) -> float:
        """Mean prompt tokens over a program's calls."""
        return (self.first_tokens + self.last_tokens) / 2


@dataclass(frozen=True)
class Shape:
    """Differences from append-only programs of one size that are released at their end."""

    name: str
    rebuilt: bool = False
    """Whether each prompt is rebuilt: the program's task, then the newest text first, truncated."""
    mixed: bool = False
    """Whether programs' sizes vary by up to 1 to 4."""
    releases: bool = True
    """Whether programs are released at their end."""
    heavy: bool = False
    """Whether pauses are lognormal, with the same mean."""


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("append"),
        Shape("rebuilt", rebuilt=True),
        Shape("mixed", mixed=True),
        Shape("no_release", releases=False),
        Shape("heavy", heavy=True),
    )
}


@dataclass(frozen=True)
class Program:
    """One program: the text of each call, and the durations of its tools in between."""

    name: str
    task: str
    """The first text; the only part that stays in place in rebuilt prompts."""
    findings: tuple[str, ...]
    """The result of each tool run, added to the next prompt."""
    pauses_s: tuple[float, ...]
    rebuilt: bool
    cut_tokens: int
    """Longest text after the task of a rebuilt prompt."""

    @property
    def calls(self) -> int:
        """Number of calls; no tool runs after the last."""
        return len(self.findings) + 1

    def first_messages(self) -> list[Message]:
        """The first call's prompt."""
        if self.rebuilt:
            return self._rebuilt([])
        return [{"role": "user", "content": self.task}]

    def next_messages(self, messages: list[Message], step: int, answer: str) -> list[Message]:
        """The prompt of call `step` (the first is 0), after the previous `answer`."""
        if self.rebuilt:
            return self._rebuilt(list(self.findings[:step]))
        said = {"role": "assistant", "content": answer}
        return [*messages, said, {"role": "user", "content": self.findings[step - 1]}]

    def _rebuilt(self, findings: list[str]) -> list[Message]:
        newest_first = " ".join(reversed(findings)).split()[: self.cut_tokens]
        told = " ".join(newest_first) or "none"
        return [{"role": "system", "content": self.task}, {"role": "user", "content": told}]

    def reusable_tokens(self, step: int, previous_tokens: int) -> int:
        """The prompt tokens of call `step` that an unlimited cache would hold; `previous_tokens`
        are those of the previous call, prompt and answer."""
        if step == 0:
            return 0
        if self.rebuilt:
            return len(self.task.split()) + TEMPLATE_TOKENS
        return previous_tokens


def make_programs(
    sizes: Sizes, shape: Shape, count: int, seed: str, arm: str
) -> tuple[Program, ...]:
    """The programs of one cell; reproducible."""
    drawn = Random(f"{seed}/sizes")
    made = []
    for place in range(count):
        scale = _scale(drawn) if shape.mixed else 1.0
        pauses = _pauses(sizes, shape, drawn)
        words = Random(f"{seed}/{arm}/{place}")
        made.append(_program(sizes, shape, f"{seed}-{arm}-{place}", scale, pauses, words))
    return tuple(made)


def start_offsets(sessions: int, spread_s: float, seed: str) -> tuple[float, ...]:
    """When each session begins: slightly staggered."""
    drawn = Random(f"{seed}/starts")
    return tuple(sorted(drawn.uniform(0.0, spread_s) for _ in range(sessions)))


def _program(
    sizes: Sizes,
    shape: Shape,
    name: str,
    scale: float,
    pauses: tuple[float, ...],
    words: Random,
) -> Program:
    def text(tokens: float) -> str:
        return " ".join(words.choices(WORDS, k=max(1, round(tokens))))

    opened = 2  # the start and the role of the coming answer
    first = sizes.first_tokens * scale - TEMPLATE_TOKENS - opened
    added = sizes.growth_tokens * scale - 2 * TEMPLATE_TOKENS
    if not shape.rebuilt:
        added -= sizes.answer_tokens  # which the prompt grows by as well
    findings = tuple(text(added) for _ in range(sizes.calls - 1))
    cut = round((sizes.last_tokens - sizes.first_tokens) * scale / 2)
    return Program(name.replace("/", "-"), text(first), findings, pauses, shape.rebuilt, cut)


def _scale(drawn: Random) -> float:
    lowest, highest = MIXED_LIMITS
    return min(highest, max(lowest, drawn.lognormvariate(-(MIXED_SIGMA**2) / 2, MIXED_SIGMA)))


def _pauses(sizes: Sizes, shape: Shape, drawn: Random) -> tuple[float, ...]:
    mean = sizes.pause_mean_s
    draw: Callable[[], float]
    if shape.heavy:
        draw = _bounded(drawn, math.log(mean) - HEAVY_SIGMA**2 / 2, HEAVY_LIMIT * mean)
    elif sizes.pause_high_s:
        draw = lambda: drawn.uniform(sizes.pause_low_s, sizes.pause_high_s)  # noqa: E731
    else:
        draw = lambda: max(sizes.pause_low_s, drawn.expovariate(1 / mean))  # noqa: E731
    return tuple(round(draw(), 4) for _ in range(sizes.calls - 1))


def _bounded(drawn: Random, mu: float, limit: float) -> Callable[[], float]:
    return lambda: min(limit, drawn.lognormvariate(mu, HEAVY_SIGMA))


def total_calls(programs: Iterable[Program]) -> int:
    """Total number of calls."""
    return sum(program.calls for program in programs)
