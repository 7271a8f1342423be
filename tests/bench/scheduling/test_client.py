"""Tests of the bench's client against an engine simulated in this process."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bench.scheduling import client as scheduling_client
from bench.scheduling.client import ArmEndpoint, Outcome, run_programs
from bench.scheduling.work import SHAPES, Program, Sizes, make_programs

SIZES = Sizes(3, 40, 120, 4, 0.0, 0.001, 0.0005)


class FakeEngine:
    """Engine that responds as vLLM does; `fails` maps call numbers, counted from 1, to statuses."""

    def __init__(self, fails: Callable[[int], int] = lambda _: 200) -> None:
        self.fails = fails
        self.bodies: list[dict[str, Any]] = []
        self.names: Counter[str] = Counter()
        self.released: list[str] = []

    async def chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        assert request.headers["X-Program-Id"] == request.headers["x-session-id"]
        self.names[request.headers["X-Program-Id"]] += 1
        status = self.fails(len(self.bodies))
        if status != 200:
            return web.json_response({"error": "no"}, status=status)
        said = [{"message": {"content": "bab bad baf bag"}}]
        prompt = sum(len(m["content"].split()) for m in body["messages"])
        usage = {"prompt_tokens": prompt, "completion_tokens": 4, "prompt_tokens_details": None}
        return web.json_response({"choices": said, "usage": usage})

    async def release(self, request: web.Request) -> web.Response:
        self.released.append((await request.json())["program_id"])
        return web.json_response({"released": True})

    async def health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "held": 3})

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_post("/programs/release", self.release)
        app.router.add_get("/health", self.health)
        async with TestServer(app) as server:
            yield str(server.make_url("")).rstrip("/")


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling_client, "RETRY_AFTER_S", 0.001)
    monkeypatch.setattr(scheduling_client, "HELD_EVERY_S", 0.001)


def programs(count: int = 4) -> tuple[Program, ...]:
    return make_programs(SIZES, SHAPES["append"], count, "1", "direct")


async def run(
    engine: FakeEngine, *, releases: bool = True, limit_s: float = 10.0, ours: bool = False
) -> Outcome:
    async with engine.serving() as url:
        front = ArmEndpoint(url, releases=ours, names_in_body=ours, tells_held=ours)
        return await run_programs(
            front,
            programs(),
            [0.0, 0.001],
            releases=releases,
            answer_tokens=4,
            limit_s=limit_s,
        )


async def test_every_program_makes_all_its_calls() -> None:
    engine = FakeEngine()
    outcome = await run(engine, releases=True)
    assert set(engine.names.values()) == {SIZES.calls} and len(engine.names) == 4
    assert len(outcome.steps) == 12 and set(outcome.ended_s) == {0, 1, 2, 3} and not outcome.cut
    assert engine.released == []  # this front does not want to hear
    for step in outcome.steps:
        assert step.intended_s <= step.sent_s <= step.ended_s <= step.tool_end_s
        assert step.reusable_tokens == 0 or step.step > 0
    assert all(body["ignore_eos"] and body["max_tokens"] == 4 for body in engine.bodies)
    assert not any("program_id" in body for body in engine.bodies)


async def test_answers_are_sent_back() -> None:
    engine = FakeEngine()
    await run(engine)
    longest = max(engine.bodies, key=lambda body: len(body["messages"]))
    roles = [message["role"] for message in longest["messages"]]
    assert roles == ["user", "assistant"] * 2 + ["user"]
    assert longest["messages"][1]["content"] == "bab bad baf bag"


@pytest.mark.parametrize("releases", [True, False])
async def test_fronts_hear_of_the_end_unless_the_shape_is_silent(releases: bool) -> None:
    engine = FakeEngine()
    outcome = await run(engine, releases=releases, ours=True)
    assert sorted(engine.released) == sorted(engine.names) * releases
    assert all(body["program_id"] in engine.names for body in engine.bodies)
    assert outcome.held and all(held == 3 for _, held, _ in outcome.held)


async def test_failed_calls_are_tried_again() -> None:
    outcome = await run(FakeEngine(lambda n: 503 if n <= 3 else 200))
    assert len(outcome.ended_s) == 4
    assert sum(step.tries - 1 for step in outcome.steps) == 3


async def test_a_program_is_given_up_after_its_tries() -> None:
    outcome = await run(FakeEngine(lambda _: 500))
    assert not outcome.ended_s and [step.status for step in outcome.steps] == [500] * 4
    assert {step.tries for step in outcome.steps} == {scheduling_client.TRIES}


async def test_a_refusal_is_not_tried_again() -> None:
    engine = FakeEngine(lambda _: 400)
    outcome = await run(engine)
    assert len(engine.bodies) == len(outcome.steps) == 4 and not outcome.ended_s


async def test_no_answer_is_data() -> None:
    outcome = await run_programs(
        ArmEndpoint("http://127.0.0.1:9"),
        programs(1),
        [0.0],
        releases=True,
        answer_tokens=4,
        limit_s=5.0,
    )
    assert [step.status for step in outcome.steps] == [scheduling_client.NO_ANSWER]


async def test_a_cell_that_takes_too_long_is_cut() -> None:
    class Slow(FakeEngine):
        async def chat(self, request: web.Request) -> web.Response:
            if len(self.bodies) >= 2:
                await asyncio.sleep(30)
            return await super().chat(request)

    outcome = await run(Slow(), limit_s=0.3)
    assert outcome.cut and len(outcome.steps) == 2 and outcome.seconds < 5
