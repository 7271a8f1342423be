"""Tests that a teacher's calls through the real gateway are recorded with its role, and that a
second run with the same questions makes none."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import BaseModel

from tests.serving.conftest import Bench, MakeBench, catalog, make_bench, quick
from tests.synthesis.teacher.scripted_endpoint import completion, form_and_name
from tutti.tasks.synthesis.teacher import (
    Meter,
    Question,
    Teacher,
    TeacherBudget,
    TeacherClient,
    TeacherEndpoint,
    open_store,
)

__all__ = ["catalog", "make_bench", "quick"]


class Number(BaseModel):
    """Response with a number."""

    n: int


@pytest.fixture
async def bench(make_bench: MakeBench) -> AsyncIterator[Bench]:
    """Yield a gateway in front of an engine that responds in the requested format."""
    bench = await make_bench()

    async def reply(_: Any, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response(completion({"n": 7}, form_and_name(body)[0]))

    bench.engine.reply = reply
    yield bench


async def asked(bench: Bench, folder: Path) -> int:
    """Make the request and return the number of paid calls."""
    url = f"{bench.client._base_url}/v1"
    endpoint = TeacherEndpoint(url, "m", program="teacher-1")
    with open_store(folder) as store:
        async with TeacherClient(endpoint, store) as client:
            teacher = Teacher(client, store, Meter(TeacherBudget(), None))
            assert await teacher.ask(Question("q", "A number?", Number)) == Number(n=7)
            return teacher.meter.calls


async def test_calls_are_recorded_with_the_role(bench: Bench, tmp_path: Path) -> None:
    assert [await asked(bench, tmp_path / "work") for _ in range(2)] == [1, 0]
    (row,) = await bench.calls()
    assert (row["role"], row["attempt_id"]) == ("teacher", "teacher-1")
