"""Tests that calls of agents that do not number them are numbered in the order of arrival."""

import asyncio
from pathlib import Path
from typing import Any

from tests.serving.conftest import Bench, until
from tests.serving.gateway.conftest import MakeRaw
from tests.serving.gateway.raw_engine import COMPLETION, RawEngine, answering, whole


def steps(rows: list[dict[str, Any]], program: str) -> list[int]:
    return [row["step"] for row in rows if row["attempt_id"] == program]


async def test_calls_at_once_have_numbers_of_their_own(raw: Bench) -> None:
    """This holds if their responses come in another order and one of them fails."""
    gate = asyncio.Event()

    async def reply(asked: Any, wire: Any) -> None:
        first = len(raw.engine.asked) == 1
        if first:
            await gate.wait()
        await answering(whole(COMPLETION, 400 if first else 200))(asked, wire)

    raw.engine.reply = reply
    slow = asyncio.create_task(raw.chat("p"))
    await until(lambda: raw.engine.asked, "the first is at the engine")
    for _ in range(2):
        await (await raw.chat("p")).read()
    gate.set()
    await (await slow).read()
    await (await raw.chat("other")).read()
    rows = await raw.calls()
    assert steps(rows, "p") == [1, 2, 3]
    assert steps(rows, "other") == [1]
    assert rows[0]["http_status"] == 400


async def test_a_client_that_numbers_its_calls_is_believed(raw: Bench) -> None:
    for header in ({"X-Tutti-Step": "0"}, {"X-Tutti-Step": "7"}, {}, {}):
        await (await raw.chat("p", headers=header)).read()
    assert await raw.release("p")
    await (await raw.chat("p")).read()
    assert steps(await raw.calls(), "p") == [0, 7, 1, 2, 1]


async def test_a_programs_calls_are_numbered_over_all_its_models(
    make_raw: MakeRaw, engines: tuple[RawEngine, RawEngine]
) -> None:
    one, other = engines
    other.models = ("n",)
    bench = await make_raw(one)
    config = other.endpoint("engine:2", pool="n", models=("n",))
    bench.gateway.pools.add(config)
    await until(lambda: bench.gateway.pools.of_model("n").name == "n", "both models are known")
    await until(
        lambda: all(e.engine.accepting for e in bench.gateway.pools.all_endpoints()), "both answer"
    )
    for model in ("m", "n", "n", "m", "n"):
        await (await bench.chat("p", model=model)).read()
    rows = await bench.calls()
    assert steps(rows, "p") == [1, 2, 3, 4, 5]
    assert {row["model"] for row in rows} == {"m", "n"}


async def test_a_gateway_that_is_started_again_goes_on(
    make_raw: MakeRaw, engines: tuple[RawEngine, RawEngine], tmp_path: Path
) -> None:
    path = tmp_path / "programs.jsonl"
    first = await make_raw(engines[0], journal=path)
    for _ in range(3):
        await (await first.chat("p")).read()
    assert steps(await first.calls(), "p") == [1, 2, 3]
    await until(lambda: path.read_bytes().count(b"\n") == 3, "all of it is written")
    second = await make_raw(engines[0], journal=path)
    await (await second.chat("p")).read()
    assert steps(await second.calls(), "p") == [1, 2, 3, 4]
