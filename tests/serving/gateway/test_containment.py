"""Tests that a fault at any stage of a call ends that call and no other.

This was an attack: an error caused by one program's body occurred in the loop that admits others,
which then hung for the maximum hold time.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.serving.conftest import Bench, released, until
from tests.serving.gateway.conftest import MakeRaw
from tests.serving.gateway.raw_engine import COMPLETION, answering, delta, streaming, whole
from tutti.tasks.serving.gateway import app as gateway_app
from tutti.tasks.serving.gateway.app import Gateway
from tutti.tasks.serving.gateway.calls.estimate import PromptSizes
from tutti.tasks.serving.gateway.calls.proxied_call import ProxiedCall
from tutti.tasks.serving.gateway.calls.record import CallRecord
from tutti.tasks.serving.gateway.endpoints.endpoint import Endpoint
from tutti.tasks.serving.gateway.recording.recorder import CallRecorder
from tutti.tasks.serving.scheduling import CapPolicy, Policy, Scheduler

VICTIM = "victim"


class Poisoned(RuntimeError):
    """Fault that no code expects."""


def program_of(arguments: tuple[Any, ...]) -> str | None:
    """Return the program for which a function was called, according to its arguments."""
    for each in arguments:
        for name in ("request", "program"):
            inner = getattr(each, name, None)
            found = getattr(inner, "program", None) or getattr(inner, "program_id", None)
            if isinstance(found, str):
                return found
        found = getattr(each, "program", None) or getattr(each, "program_id", None)
        if isinstance(found, str):
            return found
        if each == VICTIM or (b"X-Program-Id", VICTIM.encode()) in (
            getattr(each, "headers", None) or ()
        ):
            return VICTIM
    return None


def poisoned(function: Callable[..., Any], hits: list[str]) -> Callable[..., Any]:
    """Return `function` with an exception for the victim, recorded in `hits`."""

    def wrapped(*arguments: Any, **named: Any) -> Any:
        if program_of((*arguments, *named.values())) == VICTIM:
            hits.append(function.__name__)
            raise Poisoned(function.__name__)
        return function(*arguments, **named)

    return wrapped


ONLY_STREAMED = {"_end_stream", "first_token"}
ONLY_WHOLE = {"_end_whole", "learn"}
STEPS: list[tuple[Any, str]] = [
    (gateway_app, "read_request"),
    (PromptSizes, "estimate"),
    (PromptSizes, "learn"),
    (Scheduler, "arrive"),
    (CapPolicy, "arrived"),
    (CapPolicy, "admitted"),
    (CapPolicy, "finished"),
    (Policy, "first_token"),
    (CapPolicy, "reason"),
    (ProxiedCall, "_send"),
    (ProxiedCall, "_prepare"),
    (ProxiedCall, "_begin"),
    (ProxiedCall, "_take"),
    (ProxiedCall, "_end_stream"),
    (ProxiedCall, "_end_whole"),
    (ProxiedCall, "_passed"),
    (ProxiedCall, "estimate_usd"),
    (CallRecord, "cost_usd"),
    (CallRecord, "spend"),
    (CallRecord, "rows"),
    (CallRecorder, "soon"),
    (Gateway, "note_admitted"),
    (Gateway, "_account"),
    (Gateway, "_record"),
    (Gateway, "_let_rest"),
]


@pytest.fixture
async def faults() -> list[BaseException]:
    told: list[BaseException] = []

    def note(_: Any, context: dict[str, Any]) -> None:
        told.append(context["exception"])

    asyncio.get_running_loop().set_exception_handler(note)
    return told


async def outcome(bench: Bench, program: str, stream: bool) -> int:
    try:
        answer = await bench.chat(program, stream=stream)
        await answer.read()
    except Exception:
        return 0
    return int(answer.status)


async def victim_among_others(bench: Bench, stream: bool) -> tuple[int, list[int]]:
    """Queue an innocent program, the victim and another innocent program behind one that has the
    only slot."""
    assert await outcome(bench, "first", False) == 200
    waiting = []
    for name in ("before", VICTIM, "after"):
        waiting.append(asyncio.create_task(outcome(bench, name, stream and name == VICTIM)))
        await asyncio.sleep(0.02)
    for name in ("first", "before", VICTIM, "after"):
        await bench.release(name)
        await asyncio.sleep(0.02)
    before, victim, after = await asyncio.wait_for(asyncio.gather(*waiting), 60)
    return victim, [before, after]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("owner", "name"), STEPS, ids=[name for _, name in STEPS])
async def test_a_fault_at_any_step_is_its_own_calls(
    make_raw: MakeRaw,
    monkeypatch: pytest.MonkeyPatch,
    faults: list[BaseException],
    owner: Any,
    name: str,
    stream: bool,
) -> None:
    """The innocent calls are answered, nothing stays booked, and the fault is recorded."""
    bench, hits = await make_raw(policy="cap", limit=1), list[str]()
    monkeypatch.setattr(owner, name, poisoned(getattr(owner, name), hits))
    body = streaming(delta("x", "stop")) if stream else answering(whole(COMPLETION))

    async def reply(asked: Any, wire: Any) -> None:
        chosen = body if b'"stream"' in asked.body else answering(whole(COMPLETION))
        await chosen(asked, wire)

    bench.engine.reply = reply
    victim, innocent = await victim_among_others(bench, stream)
    assert innocent == [200, 200]
    assert victim in (0, 200, 500)
    assert bool(hits) is (name not in (ONLY_WHOLE if stream else ONLY_STREAMED))
    recorded = bench.gateway.recorder.last_error  # a row that cannot be made is told there
    assert len(faults) >= len(set(hits)) or "Poisoned" in (recorded or "")
    (endpoint,) = bench.gateway.pools.all_endpoints()
    assert (endpoint.failed_calls, endpoint.engine.accepting) == (0, True), "it was no engine's"
    monkeypatch.undo()
    await released(bench.gateway)


async def test_a_victim_without_a_name_is_told(
    make_raw: MakeRaw, monkeypatch: pytest.MonkeyPatch, faults: list[BaseException]
) -> None:
    """A stage that fails for all calls answers each of them with 500 immediately."""
    bench, own = await make_raw(), Endpoint.authorize

    def broken(endpoint: Endpoint, headers: Any, own_tokens: bool, path: bytes = b"") -> Any:
        if path:  # of a call: a fault in the watch of an engine takes that engine out of service
            raise Poisoned("authorize")
        return own(endpoint, headers, own_tokens)

    monkeypatch.setattr(Endpoint, "authorize", broken)
    assert await asyncio.gather(*(outcome(bench, f"p{n}", False) for n in range(5))) == [500] * 5
    monkeypatch.undo()
    assert await outcome(bench, "p", False) == 200
    assert len(faults) == 5 and bench.gateway.counts["faults"] == 5
    await released(bench.gateway)


async def test_a_policy_that_admits_nobody_any_more_keeps_nobody_waiting(
    make_raw: MakeRaw, monkeypatch: pytest.MonkeyPatch, faults: list[BaseException]
) -> None:
    """Waiting calls get 500 instead of being held forever; after recovery everything works."""
    bench = await make_raw(policy="cap", limit=1)
    assert await outcome(bench, "first", False) == 200
    waiting = asyncio.create_task(outcome(bench, "second", False))
    await bench.until_held("second")

    def broken(*_: Any) -> Any:
        raise Poisoned("admit")

    monkeypatch.setattr(CapPolicy, "admit", broken)
    await bench.release("first")
    assert await asyncio.wait_for(waiting, 60) == 500
    assert await outcome(bench, "third", False) == 500
    monkeypatch.undo()
    assert await outcome(bench, "fourth", False) == 200
    await released(bench.gateway)


async def test_a_fault_beside_a_call_is_told(
    make_raw: MakeRaw, monkeypatch: pytest.MonkeyPatch, faults: list[BaseException]
) -> None:
    """A failed task of the gateway itself is reported immediately, not when it is garbage
    collected."""
    bench = await make_raw()

    async def fail() -> None:
        raise Poisoned("beside")

    bench.gateway.spawn(fail())
    await until(lambda: faults, "it is told")
    assert bench.gateway.counts["faults"] == 1


async def test_a_fault_of_a_request_that_is_passed_on_is_answered(
    raw: Bench, monkeypatch: pytest.MonkeyPatch, faults: list[BaseException]
) -> None:
    """Such a request is handled separately from calls, and its client gets an error."""

    def broken(*_: Any) -> Any:
        raise Poisoned("target")

    monkeypatch.setattr("tutti.tasks.serving.gateway.calls.unscheduled._target", broken)
    answer = await raw.client.post("/v1/tokenize", json={"model": "m"})
    assert (answer.status, len(faults)) == (500, 1)


def test_the_simulator_hears_of_a_policys_fault() -> None:
    scheduler = Scheduler(Policy())
    scheduler.policy.arrived = poisoned(scheduler.policy.arrived, [])  # type: ignore[method-assign]
    with pytest.raises(Poisoned):
        scheduler.arrive(VICTIM, "c", 1, 1, 0.0)
