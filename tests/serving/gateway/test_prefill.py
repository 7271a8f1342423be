"""Tests of measuring the cost of a prompt token on the idle engine, once, before it takes calls."""

import asyncio
import random

import pytest

from tests.serving.gateway.conftest import MakeRaw
from tests.serving.gateway.raw_engine import ReceivedRequest, Wire, answering, raw_engine, whole
from tutti.tasks.serving.gateway.endpoints.prefill import PAIRS_MOST, lengths, seconds_a_token

TOKEN_S = 2e-5
IDLE = b"""vllm:num_requests_running 0.0
vllm:num_requests_waiting 0.0
vllm:cache_config_info{block_size="16",kv_cache_size_tokens="4096"} 1.0
"""


class Clock:
    """Fake engine with simulated time: a prompt takes a constant plus its tokens."""

    def __init__(self, token_s: float, noise_s: float, stops_after: int = 10**6) -> None:
        self.now, self.asked = 0.0, list[int]()
        self.token_s, self.noise_s, self.stops_after = token_s, noise_s, stops_after
        self.draw = random.Random(1)

    async def ask(self, tokens: int) -> float | None:
        self.asked.append(tokens)
        took = 0.01 + tokens * self.token_s + self.draw.uniform(0, self.noise_s)
        self.now += took
        return took if len(self.asked) <= self.stops_after else None


@pytest.mark.parametrize("token_s", [1e-6, 2e-5, 7e-4])
async def test_the_slope_is_found_beside_the_constant(token_s: float) -> None:
    engine = Clock(token_s, 0.001)
    slope = await seconds_a_token((512, 1024), engine.ask, lambda: engine.now)
    assert slope is not None and abs(slope - token_s) <= 3e-6
    assert set(engine.asked) == {512, 1024}


async def test_slow_engines_are_asked_less() -> None:
    """Two seconds are enough for three pairs, plus one warm-up of each length."""
    engine = Clock(7e-4, 0.0)
    await seconds_a_token((512, 1024), engine.ask, lambda: engine.now)
    assert len(engine.asked) == 2 + 2 * 3
    quick = Clock(1e-6, 0.0)
    await seconds_a_token((512, 1024), quick.ask, lambda: quick.now)
    assert len(quick.asked) == 2 + 2 * PAIRS_MOST


async def test_what_ran_beside_others_is_not_counted() -> None:
    """A call starts after the first pairs: two pairs are too few for a result, four are enough."""
    few, enough = Clock(TOKEN_S, 0.0, 2 + 4), Clock(TOKEN_S, 0.0, 2 + 8)
    assert await seconds_a_token((512, 1024), few.ask, lambda: few.now) is None
    found = await seconds_a_token((512, 1024), enough.ask, lambda: enough.now)
    assert found == pytest.approx(TOKEN_S)


def test_prompts_fit_the_engine() -> None:
    """Prompts are no longer than the engine's context and half of its cache; an engine that is too
    small is not measured."""
    assert lengths(None, None) == (512, 1024)
    assert lengths(512, 1024) == (252, 504)
    assert lengths(4096, 400) == (100, 200)
    assert lengths(4096, 100) is None


async def slowly(asked: ReceivedRequest, wire: Wire) -> None:
    prompt = asked.json()["prompt"]
    await asyncio.sleep(0.002 + len(prompt) * TOKEN_S)
    await wire.write(whole({"choices": [], "usage": {"prompt_tokens": len(prompt)}}))


async def test_an_idle_engine_is_measured_before_its_first_call(make_raw: MakeRaw) -> None:
    """The prompts are new, the calls are not recorded, and the result is shown."""
    async with raw_engine(reply=slowly, idle=True) as engine:
        bench = await make_raw(engine)
        prompts = [tuple(asked.json()["prompt"]) for asked in engine.asked]
        assert len(set(prompts)) == len(prompts) == 2 + 2 * PAIRS_MOST
        (shown,) = await (await bench.client.get("/engines")).json()
        assert shown["prefill_us_per_token"] == pytest.approx(TOKEN_S * 1e6, rel=0.9)
        assert await bench.calls() == []


async def test_a_cell_that_begins_meanwhile_counts_none_of_it(
    make_raw: MakeRaw, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with raw_engine(reply=slowly, idle=True) as engine:
        monkeypatch.setattr(
            engine, "page", lambda: b"vllm:prompt_tokens_total %d\n" % len(engine.asked) + IDLE
        )
        bench = await make_raw(engine)
        (endpoint,) = bench.gateway.pools.all_endpoints()
        endpoint.reachable = False
        before = len(engine.asked)
        await bench.begin()
        assert len(engine.asked) == before + 2 + 2 * PAIRS_MOST
        sampled = "select min(value) as least from server_metrics where name like '%prompt_tokens%'"
        assert await bench.rows(sampled) == [{"least": len(engine.asked)}]


async def test_who_does_not_want_it_is_not_measured(make_raw: MakeRaw) -> None:
    async with raw_engine(idle=True) as engine:
        await make_raw(engine, endpoint={"measure": False})
        assert engine.asked == []


async def test_an_engine_that_refuses_is_used_all_the_same(make_raw: MakeRaw) -> None:
    refusing = answering(whole({"error": "no completions here"}, 404))
    async with raw_engine(reply=refusing, idle=True) as engine:
        bench = await make_raw(engine)
        (shown,) = await (await bench.client.get("/engines")).json()
        assert shown["prefill_us_per_token"] is None
