"""Tests that an engine sleeps while a training uses its GPU and is awake afterwards in every
case."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tutti.tasks.serving import EngineFailed
from tutti.tasks.serving.engines import asleep, control
from tutti.tasks.serving.engines.control import fall_asleep, is_asleep, wake


class SleepingEngine:
    """Fake with the responses of vLLM 0.32's entrypoints/serve/dev/{sleep,cache}/api_router.py."""

    def __init__(self, **faults: Any) -> None:
        self.sleeping, self.faults = False, faults
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(f"{request.method} {request.path_qs}")
        name = request.path.lstrip("/")
        if name in self.faults:
            fault = self.faults[name]
            if isinstance(fault, int):
                return web.Response(status=fault, text="broken")
            await asyncio.sleep(fault.get("after_s", 0))
            return web.json_response(fault)
        if name == "sleep":
            self.sleeping = True
            return web.json_response({"status": "sleeping", "level": 1})
        if name == "wake_up":
            self.sleeping = False
            return web.json_response({"status": "awake", "tags": None})
        if name == "is_sleeping":
            return web.json_response({"is_sleeping": self.sleeping})
        return web.json_response({"success": True})


@asynccontextmanager
async def served(engine: SleepingEngine) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{name}", engine.answer)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


async def test_it_sleeps_in_the_block_and_wakes_with_an_empty_cache() -> None:
    engine = SleepingEngine()
    async with served(engine) as url:
        async with asleep(url):
            assert engine.sleeping
        assert not engine.sleeping
    assert engine.asked == [
        "GET /is_sleeping",
        "POST /sleep?level=1&mode=keep",
        "GET /is_sleeping",
        "POST /wake_up",
        "GET /is_sleeping",
        "POST /reset_prefix_cache?reset_running_requests=true",
    ]


async def test_a_training_that_fails_wakes_it_too() -> None:
    engine = SleepingEngine()
    async with served(engine) as url:
        with pytest.raises(RuntimeError, match="diverged"):
            async with asleep(url):
                raise RuntimeError("diverged")
    assert not engine.sleeping


async def test_the_trainings_own_error_is_told_where_it_does_not_wake_either() -> None:
    engine = SleepingEngine(wake_up=500)
    async with served(engine) as url:
        with pytest.raises(RuntimeError, match="diverged") as told:
            async with asleep(url):
                raise RuntimeError("diverged")
    assert "Nor was the engine woken" in told.value.__notes__[0]


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ({"is_sleeping": 404}, "HTTP 404: start it with VLLM_SERVER_DEV_MODE=1"),
        ({"is_sleeping": {"is_sleeping": True}}, "sleeps already"),
        ({"sleep": 500}, "HTTP 500: broken"),
        ({"sleep": {"status": "sleeping"}}, "was told to sleep and does not"),
        ({"wake_up": {"status": "sleeping"}}, "was told to wake and sleeps on"),
        ({"reset_prefix_cache": {"success": False}}, "the prefix cache was not emptied"),
        ({"sleep": {"after_s": 5}}, "/sleep.*TimeoutError"),
    ],
)
async def test_each_fault_is_told(
    monkeypatch: pytest.MonkeyPatch, faults: dict[str, Any], said: str
) -> None:
    """The faults are an engine that responds 200 without acting, and one that does not respond."""
    monkeypatch.setattr(control, "PHASE_TIMEOUT_S", 0.5)
    engine = SleepingEngine(**faults)
    async with served(engine) as url:
        with pytest.raises(EngineFailed, match=said):
            async with asleep(url):
                pass
    slept = [path for path in engine.asked if path.startswith("POST /sleep")]
    assert bool(slept) == ("POST /wake_up" in engine.asked), "what was told to sleep is woken"


async def test_without_a_block_it_sleeps_until_it_is_woken() -> None:
    """An engine that is awake gets no wake request, so its cache is not emptied."""
    engine = SleepingEngine()
    async with served(engine) as url:
        await fall_asleep(url)
        assert engine.sleeping and await is_asleep(url)
        assert await wake(url)
        assert not engine.sleeping
        before = len(engine.asked)
        assert not await wake(url)
    assert engine.asked[before:] == ["GET /is_sleeping"]


async def test_one_that_does_not_sleep_is_left_awake() -> None:
    engine = SleepingEngine(sleep={"status": "sleeping"})
    async with served(engine) as url:
        with pytest.raises(EngineFailed, match="was told to sleep and does not"):
            await fall_asleep(url)
    assert "POST /wake_up" in engine.asked


async def test_one_that_hangs_is_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "ANSWER_TIMEOUT_S", 0.2)
    engine = SleepingEngine(is_sleeping={"after_s": 5})
    async with served(engine) as url:
        with pytest.raises(EngineFailed, match=r"is_sleeping.*TimeoutError"):
            await wake(url)
