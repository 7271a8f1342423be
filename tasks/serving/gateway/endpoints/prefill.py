"""Measurement of an idle engine's prefill time per prompt token.

A policy that knows it from the start holds no programs for worthless prefixes. A few pairs of new
prompts are sent, one twice as long as the other, each with one token of answer.
"""

import random
import time
from collections.abc import Awaitable, Callable
from statistics import median

import orjson

from tutti.tasks.serving.gateway.endpoints.endpoint import Endpoint, ProbeFailed

LONGEST_TOKENS = 1024
LEAST_TOKENS = 64
PAIRS_LEAST, PAIRS_MOST = 3, 8
ENOUGH_S = 2.0
CALL_TIMEOUT_S = 20.0
IDS = range(100, 220)
"""Token ids that every vocabulary has."""

Seconds = Callable[[int], Awaitable[float | None]]
"""Sends a new prompt of that many tokens and returns its time; None if something else ran
meanwhile."""


def lengths(context_tokens: int | None, capacity_tokens: int | None) -> tuple[int, int] | None:
    """The shorter and the longer prompt, in tokens; None if the engine's capacity is too small."""
    bounds = [LONGEST_TOKENS]
    if context_tokens is not None:
        bounds.append(context_tokens - 8)
    if capacity_tokens is not None:
        bounds.append(capacity_tokens // 2)
    longer = min(bounds)
    return None if longer < LEAST_TOKENS else (longer // 2, longer)


async def seconds_a_token(
    pair: tuple[int, int], ask: Seconds, clock: Callable[[], float] = time.monotonic
) -> float | None:
    """Return seconds per prompt token, by the median of pairs' differences. The first prompt of
    each length is not counted, because engines compile at the first use of a size. None if too few
    pairs ran undisturbed. Raises ProbeFailed."""
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
    return max(median(slopes), 0.0) if len(slopes) >= PAIRS_LEAST else None


async def measure(endpoint: Endpoint, capacity_tokens: int | None) -> float | None:
    """Measure the seconds per prompt token of `endpoint`, which must be idle; None if they cannot
    be determined. Raises ProbeFailed."""
    pair = lengths(endpoint.context_tokens, capacity_tokens)
    if pair is None or not endpoint.models:
        return None
    served_name = endpoint.served_name(endpoint.models[0])

    async def ask(tokens: int) -> float | None:
        if endpoint.engine.running:
            return None
        prompt = random.choices(IDS, k=tokens)  # not seeded: earlier prompts may be cached
        body = {"model": served_name, "prompt": prompt, "max_tokens": 1}
        sent = time.monotonic()
        answer = await endpoint.ask(
            b"POST", b"/v1/completions", orjson.dumps(body), timeout_s=CALL_TIMEOUT_S
        )
        if answer.status != 200:
            raise ProbeFailed(f"/v1/completions answered {answer.status}")
        return None if endpoint.engine.running else time.monotonic() - sent

    return await seconds_a_token(pair, ask)
