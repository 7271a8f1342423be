"""Tests of the gateway's recording when the store fails or rows are invalid."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from aiohttp import web

from tests.serving.conftest import BOSS, Bench, MakeBench, until
from tutti import storage
from tutti.storage import catalog as cat


async def test_rows_wait_for_a_store_that_fails(bench: Bench, tmp_path: Path) -> None:
    """Without space, /flush returns 507 and calls continue; when there is space again, all rows are
    stored."""
    tables = bench.catalog.home.tables
    tables.write_text("a file where the folder belongs: nothing can be written")
    assert (await bench.chat("a")).status == 200
    answer = await bench.client.post("/flush", headers=BOSS)
    assert answer.status == 507
    assert str(bench.catalog.home.root) in (await answer.json())["error"]
    assert (await (await bench.client.get("/health")).json())["store_error"]
    assert (await bench.chat("b")).status == 200
    tables.unlink()
    assert [row["attempt_id"] for row in await bench.calls()] == ["a", "b"]
    assert (await (await bench.client.get("/health")).json())["store_error"] == ""


async def test_a_row_that_no_table_takes_does_not_cost_the_others(bench: Bench) -> None:
    """A field of one client must not keep other programs' calls out of the store."""
    await bench.chat("good")
    await bench.chat("odd", model=5)
    await bench.chat("good")
    await bench.client.post("/flush", headers=BOSS)
    await bench.chat("late")
    await bench.client.post("/flush", headers=BOSS)
    names = storage.query("select attempt_id from calls", bench.catalog.home)
    kept = sorted(row["attempt_id"] for row in names if row["attempt_id"] != "odd")
    assert kept == ["good", "good", "late"]


async def test_usage_of_an_odd_type_does_not_break_the_answer(bench: Bench) -> None:

    async def odd(_: Any, body: Any) -> web.StreamResponse:
        return web.json_response({"choices": [{"text": "x"}], "usage": "12 tokens"})

    bench.engine.reply = odd
    assert (await bench.chat("p")).status == 200


async def test_a_flush_given_up_halfway_loses_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client of the flush disconnected while the store was failing: the next flush stores the
    rows."""
    import threading

    from tutti.storage.write import buffered

    begun, go_on = threading.Event(), threading.Event()

    def failing(*_: Any, **__: Any) -> None:
        begun.set()
        go_on.wait(60)
        raise storage.StoreFull("no room")

    monkeypatch.setattr(buffered, "commit_tables", failing)
    await bench.chat("a")
    flushing = asyncio.create_task(bench.client.post("/flush", headers=BOSS))
    await until(begun.is_set, "the commit began")
    flushing.cancel()
    go_on.set()
    await asyncio.gather(flushing, return_exceptions=True)
    monkeypatch.undo()
    assert [row["attempt_id"] for row in await bench.calls()] == ["a"]


async def test_what_is_recorded_at_the_end_is_committed(
    make_bench: MakeBench, catalog: storage.Catalog
) -> None:
    bench = await make_bench()
    await bench.chat("last")
    await bench.gateway.stop(grace_s=0.0)
    rows = storage.query("select attempt_id from calls", catalog.home)
    assert rows == [{"attempt_id": "last"}]
    tables = {row["table_name"] for row in catalog.rows(sa.select(cat.parts.c.table_name))}
    assert tables == {"calls", "messages"}
