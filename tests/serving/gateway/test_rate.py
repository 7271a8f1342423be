"""A provider's limits a minute: calls leave at its rate, though nothing else happens; and the pause
that an engine may ask for."""

import asyncio
import time

import pytest

from tests.serving.conftest import released
from tests.serving.gateway.conftest import MakeRaw
from tests.serving.gateway.raw_engine import COMPLETION, ReceivedRequest, Wire, whole
from tutti.tasks.serving.gateway.endpoints.endpoint import (
    ASK_AGAIN_S,
    LONGEST_PAUSE_S,
    retry_after_s,
)


async def test_calls_a_minute_are_kept_below_a_providers_limit(make_raw: MakeRaw) -> None:
    """They leave one by one at the rate, woken by a timer and not by the next call; a cell's change
    brings no second allowance."""
    bench = await make_raw(endpoint={"requests_per_minute": 240, "measure": False})
    at = list[float]()

    async def reply(asked: ReceivedRequest, wire: Wire) -> None:
        if asked.path == "/v1/chat/completions":  # else it is the gateway's own question
            at.append(time.monotonic())
        await wire.write(whole(COMPLETION))

    bench.engine.reply = reply
    began = time.monotonic()
    calls = [asyncio.create_task(bench.chat(f"p{number}")) for number in range(7)]
    assert {(await call).status for call in calls} == {200}
    assert at[6] - began >= 0.75, "after a second's share, one each quarter of a second"
    rate = bench.gateway.pools.find("engine:1")[1].engine.rate
    await bench.begin()
    assert rate is not None and bench.gateway.pools.find("engine:1")[1].engine.rate is rate
    await released(bench.gateway)


@pytest.mark.parametrize(
    ("value", "pause_s"),
    [
        (b"0.2", 0.2),
        (b"300", LONGEST_PAUSE_S),
        (b"301", ASK_AGAIN_S),
        (b"999999999999", ASK_AGAIN_S),
        (b"inf", ASK_AGAIN_S),
        (b"nan", None),
        (b"-1", None),
        (b"Wed, 21 Oct 2020 07:28:00 GMT", 0.0),
    ],
)
def test_a_pause_is_kept_up_to_a_bound(value: bytes, pause_s: float | None) -> None:
    """Beyond it the endpoint is asked again after a minute; before, it was paused for 600 s."""
    assert retry_after_s([(b"Retry-After", value)]) == pause_s
