"""What an uncached prompt token costs an engine, measured while it is idle.

The calls of a run tell it too, but late and with the noise of everything else that runs: a policy
that knows it from the start holds nobody for prefixes that are worth nothing. A few pairs of
prompts that nobody sent before, one twice as long as the other, one token of answer each; in all
they take a few seconds at most. The longer one is near a whole batch, where a busy engine works.
"""

import random
import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median

import orjson

from tutti.tasks.serving.gateway.endpoint import Endpoint, ProbeFailed

LONGEST_TOKENS = 1024
LEAST_TOKENS = 64
PAIRS_LEAST, PAIRS_MOST = 3, 8
ENOUGH_S = 2.0
CALL_TIMEOUT_S = 20.0
IDS = range(100, 220)
"""Of tokens that every vocabulary has."""
MAD_TO_SIGMA, OF_MEDIAN = 1.4826, 1.2533

Seconds = Callable[[int], Awaitable[float | None]]
"""Has a fresh prompt of so many tokens answered; None where something else ran meanwhile."""


def lengths(context_tokens: int | None, capacity_tokens: int | None) -> tuple[int, int] | None:
    """The shorter and the longer prompt, in tokens; None where the engine holds too few."""
    bounds = [LONGEST_TOKENS]
    if context_tokens is not None:
        bounds.append(context_tokens - 8)
    if capacity_tokens is not None:
        bounds.append(capacity_tokens // 2)
    longer = min(bounds)
    return None if longer < LEAST_TOKENS else (longer // 2, longer)


async def seconds_a_token(
    pair: tuple[int, int], ask: Seconds, clock: Callable[[], float] = time.monotonic
) -> tuple[float, float] | None:
    """Seconds a prompt token and their standard error, by the median of pairs' differences.

    The first of each length is not counted: engines compile what they see for the first time. None
    where too few pairs ran undisturbed. Raises ProbeFailed.
    """
    shorter, longer = pair
    for length in pair:
        await ask(length)
    began = clock()
    slopes = list[float]()
    for turn in range(PAIRS_MOST):
        order = pair if turn % 2 else pair[::-1]
        took = {length: await ask(length) for length in order}
        less, more = took[shorter], took[longer]
        if less is None or more is None:
            break
        slopes.append((more - less) / (longer - shorter))
        if len(slopes) >= PAIRS_LEAST and clock() - began > ENOUGH_S:
            break
    return _estimate(slopes) if len(slopes) >= PAIRS_LEAST else None


def _estimate(slopes: Sequence[float]) -> tuple[float, float]:
    middle = median(slopes)
    spread = MAD_TO_SIGMA * median(abs(slope - middle) for slope in slopes)
    return max(middle, 0.0), OF_MEDIAN * spread / len(slopes) ** 0.5


async def measure(endpoint: Endpoint, capacity_tokens: int | None) -> float | None:
    """Seconds that a prompt token costs `endpoint`, which must be idle; None where it cannot be
    told. Raises ProbeFailed."""
    pair = lengths(endpoint.context_tokens, capacity_tokens)
    if pair is None or not endpoint.models:
        return None

    async def ask(tokens: int) -> float | None:
        if endpoint.engine.running:
            return None
        prompt = random.choices(IDS, k=tokens)  # not seeded: what was sent before may be cached
        body = {"model": endpoint.models[0], "prompt": prompt, "max_tokens": 1}
        sent = time.monotonic()
        answer = await endpoint.ask(
            b"POST", b"/v1/completions", orjson.dumps(body), timeout_s=CALL_TIMEOUT_S
        )
        if answer.status != 200:
            raise ProbeFailed(f"/v1/completions answered {answer.status}")
        return None if endpoint.engine.running else time.monotonic() - sent

    found = await seconds_a_token(pair, ask)
    return None if found is None else found[0]
