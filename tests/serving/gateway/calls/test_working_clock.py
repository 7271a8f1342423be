"""Tests of an attempt's working clock behind a gateway whose endpoint is busy: waits are not work.

The clock jumps over each pause, so no test waits or depends on the machine's speed.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.serving.conftest import until
from tests.serving.gateway.conftest import MakeRaw
from tests.serving.gateway.raw_engine import (
    COMPLETION,
    RawEngine,
    ReceivedRequest,
    Reply,
    Wire,
    answering,
    whole,
)
from tutti.tasks.agents.loop import AttemptLimits, Trajectory, run_attempt
from tutti.tasks.agents.models.client import RETRY, Client
from tutti.tasks.agents.models.model import CallOrigin, GatewayModel, Sampling
from tutti.tasks.agents.tools.tool import DescribedTools, Environment
from tutti.tasks.serving.gateway.endpoints.endpoint import Endpoint

LIMIT_S = 60.0
BUSY_S = 200
"""More than the limit, less than the gateway holds a call."""
CALLS = [{"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
TOOL_CALL = whole(
    {"choices": [{"message": {"role": "assistant", "content": "", "tool_calls": CALLS}}]}
)
ANSWER = whole(
    COMPLETION | {"choices": [{"message": {"role": "assistant", "content": r"\boxed{7}"}}]}
)
ASKED_TO_WAIT = f"Retry-After: {BUSY_S}\r\n"


class SkippingClock:
    """Monotonic clock that jumps over pauses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real, self._sleep, self._pause = time.monotonic, asyncio.sleep, Endpoint.pause
        self._ahead = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self._real() + self._ahead)
        monkeypatch.setattr(asyncio, "sleep", self._skip_sleep)
        monkeypatch.setattr(Endpoint, "pause", self._skip_pause())

    def skip(self, seconds: float) -> None:
        self._ahead += max(0.0, seconds)

    def skip_to(self, at: float) -> None:
        self.skip(at - time.monotonic())

    async def _skip_sleep(self, seconds: float, result: Any = None) -> Any:
        if seconds < 0.2:  # what the gateway does all the time
            return await self._sleep(seconds, result)
        self.skip(seconds)
        return await self._sleep(0, result)

    def _skip_pause(self) -> Callable[[Endpoint, float, str], None]:
        def pause(endpoint: Endpoint, until: float, reason: str) -> None:
            self._pause(endpoint, until, reason)
            asyncio.get_running_loop().call_soon(self.skip_to, until)

        return pause


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SkippingClock:
    return SkippingClock(monkeypatch)


class Tools(DescribedTools):
    """Tool that acts between two calls."""

    def __init__(self, act: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._act = act

    async def use(self, name: str, arguments: str) -> Any:
        await self._act()
        return await super().use(name, arguments)


async def nothing() -> None:
    """Do nothing, as a tool that only returns a result."""


def in_turn(engine: RawEngine, *replies: bytes | Reply) -> None:
    left = list(replies)

    async def reply(asked: ReceivedRequest, wire: Wire) -> None:
        each = left.pop(0) if len(left) > 1 else left[0]
        await (answering(each) if isinstance(each, bytes) else each)(asked, wire)

    engine.reply = reply


async def attempt(bench: Any, act: Callable[[], Awaitable[None]] = nothing) -> Trajectory:
    async with Client(str(bench.client._base_url).rstrip("/")) as client:
        model = GatewayModel(client, "m", CallOrigin("p", "cell:1"), Sampling())
        limits = AttemptLimits(working_s=LIMIT_S)
        prompt = [{"role": "user", "content": "q"}]
        return await run_attempt(prompt, model, Environment(Tools(act)), limits)


def assert_waited(done: Trajectory, seconds: float) -> None:
    assert (done.status, done.stop_reason, done.answer) == ("ok", "answered", "7")
    assert done.held_s >= seconds > LIMIT_S > done.working_s >= 0
    assert done.seconds == pytest.approx(done.held_s + done.working_s)


@pytest.mark.parametrize("status", [429, 503, 529, 500])
async def test_a_pause_that_the_endpoint_asks_for_is_no_work(
    make_raw: MakeRaw, clock: SkippingClock, status: int
) -> None:
    """After 429 the gateway waits, after other statuses the client does; the time limit is checked
    between steps."""
    bench = await make_raw()
    in_turn(bench.engine, whole({}, status, ASKED_TO_WAIT), TOOL_CALL, ANSWER)
    assert_waited(await attempt(bench), BUSY_S - 1)


async def test_tries_that_take_long_before_they_fail_are_no_work(
    make_raw: MakeRaw, clock: SkippingClock
) -> None:
    """The endpoint sends no Retry-After and is silent for a long time before it reports that it is
    busy."""

    async def slow_refusal(_: ReceivedRequest, wire: Wire) -> None:
        clock.skip(BUSY_S)
        await wire.write(whole({}, 503))

    bench = await make_raw()
    in_turn(bench.engine, slow_refusal, slow_refusal, TOOL_CALL, slow_refusal, ANSWER)
    assert_waited(await attempt(bench), 3 * BUSY_S)


async def test_pauses_without_retry_after_add_up_to_no_work(
    make_raw: MakeRaw, clock: SkippingClock
) -> None:
    """The gateway tries a client's call four times, and the client calls up to six times."""
    bench = await make_raw()
    busy = [whole({}, 429)] * 20
    in_turn(bench.engine, *busy, TOOL_CALL, *busy, TOOL_CALL, *busy, TOOL_CALL, *busy, ANSWER)
    assert_waited(await attempt(bench), 61)


async def test_a_try_at_another_engine_is_the_work_and_the_one_before_is_not(
    make_raw: MakeRaw, clock: SkippingClock
) -> None:

    async def slow_refusal(_: ReceivedRequest, wire: Wire) -> None:
        clock.skip(BUSY_S)
        await wire.write(whole({}, 503))

    first, second = RawEngine(), RawEngine()
    await first.start()
    await second.start()
    try:
        bench = await make_raw(first, second)
        in_turn(first, slow_refusal, TOOL_CALL, ANSWER)
        in_turn(second, TOOL_CALL, ANSWER)
        assert_waited(await attempt(bench), BUSY_S)
        assert [row["retry"] for row in await bench.calls()] == [1, 0]
    finally:
        await first.kill()
        await second.kill()


async def test_a_pause_of_the_whole_endpoint_is_no_work(
    make_raw: MakeRaw, clock: SkippingClock
) -> None:
    """The endpoint's circuit breaker opens between two steps because of other programs' calls."""
    bench = await make_raw()
    (endpoint,) = bench.gateway.pools.all_endpoints()

    async def pause() -> None:
        endpoint.paused_until = time.monotonic() + BUSY_S
        bench.gateway.endpoint_changed(endpoint)
        asyncio.get_running_loop().call_later(0.1, clock.skip_to, endpoint.paused_until)

    in_turn(bench.engine, TOOL_CALL, TOOL_CALL, ANSWER)
    assert_waited(await attempt(bench, pause), BUSY_S / 2)


@pytest.mark.parametrize("headers", ["", ASKED_TO_WAIT])
@pytest.mark.parametrize("status", [429, 503])
async def test_an_endpoint_that_stays_away_ends_the_attempt_as_infrastructure(
    make_raw: MakeRaw, clock: SkippingClock, status: int, headers: str
) -> None:
    """The attempt ends after the tries or the deadline of `RETRY`, never at the time limit."""
    bench = await make_raw()
    in_turn(bench.engine, TOOL_CALL, whole({}, status, headers))
    done = await attempt(bench)
    assert (done.status, done.stop_reason) == ("infra_error", "ModelCallFailed")
    assert done.error_type in (f"http_{status}", "http_503")
    assert done.working_s < LIMIT_S
    last_call_s = bench.gateway.settings.hold_s + BUSY_S + 60.0  # of a busy machine's own time
    assert done.held_s <= RETRY.deadline_s + last_call_s


async def test_a_call_that_is_held_again_is_recorded_as_held_until_its_last_send(
    make_raw: MakeRaw, clock: SkippingClock
) -> None:
    bench = await make_raw()
    in_turn(bench.engine, whole({}, 429, ASKED_TO_WAIT), ANSWER)
    answer = await bench.chat("p")
    assert float(answer.headers["X-Tutti-Held-S"]) >= BUSY_S - 1
    (row,) = await bench.calls()
    assert row["retry"] == 1 and BUSY_S - 1 <= row["held_s"] <= row["latency_s"]
    assert (row["admitted_at"] - row["sent_at"]).total_seconds() == pytest.approx(row["held_s"])


async def test_a_call_that_is_not_sent_again_was_held_to_its_end(make_raw: MakeRaw) -> None:
    bench = await make_raw()
    in_turn(bench.engine, whole({}, 429, ASKED_TO_WAIT))
    call = asyncio.create_task(bench.chat("p"))
    await until(lambda: bench.engine.asked, "it was sent once")
    await bench.until_held("p")
    call.cancel()
    await until(lambda: not bench.gateway.in_flight, "it is over")
    (row,) = await bench.calls()
    assert (row["status"], row["admitted_at"]) == ("cancelled", None)
    assert row["held_s"] == row["latency_s"]


async def test_a_harness_is_told_what_it_waited_so_far(
    make_raw: MakeRaw, clock: SkippingClock
) -> None:
    """The waits include pauses after failures, by the gateway's clock; the time for which its calls
    have failed is reported, too."""

    async def asked(path: str = "clock") -> dict[str, Any]:
        answer = await bench.client.post(f"/programs/{path}", json={"program_id": "p"})
        found: dict[str, Any] = await answer.json()
        return found

    bench = await make_raw(name="mine")
    assert await asked() == {"held_s": 0.0, "partner_s": 0.0, "failing_s": 0.0}
    in_turn(bench.engine, whole({}, 503), whole({}, 503), ANSWER)
    await bench.chat("p")
    clock.skip(BUSY_S)  # the harness's own pause
    await bench.chat("p")
    clock.skip(BUSY_S)
    found = await asked()
    assert BUSY_S <= found["held_s"] < BUSY_S + 10 and found["failing_s"] >= 2 * BUSY_S
    await bench.chat("p")
    clock.skip(BUSY_S)  # what it does after an answer is its work
    found = await asked()
    assert 2 * BUSY_S <= found["held_s"] < 2 * BUSY_S + 10 and found["failing_s"] == 0.0
    (endpoint,) = bench.gateway.pools.all_endpoints()
    endpoint.paused_until = time.monotonic() + 10 * BUSY_S
    bench.gateway.endpoint_changed(endpoint)
    held = asyncio.create_task(bench.chat("p"))
    await bench.until_held("p")
    clock.skip(BUSY_S)
    found = await asked()
    assert 3 * BUSY_S <= found["held_s"] < 3 * BUSY_S + 10, "the call that is held counts"
    endpoint.paused_until = 0.0
    await held
    spent = (await asked("release"))["spent"]
    assert spent["held_s"] == pytest.approx(found["held_s"], abs=10)
    await until(lambda: not bench.programs, "it is released")
    (row,) = await bench.rows("select held_s, working_s from attempts")
    assert row["held_s"] == pytest.approx(spent["held_s"], abs=0.1)
    assert BUSY_S <= row["working_s"] < BUSY_S + 10
