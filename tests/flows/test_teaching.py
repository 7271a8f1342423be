"""Tests of the function that serves teachers and judges, with a real gateway and fakes of
engines."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp.test_utils import TestServer

from tests.serving.engine_double import EngineDouble
from tutti import storage
from tutti.flows.sources import serve_teachers
from tutti.tasks.platform.progress import StageLog
from tutti.tasks.serving import RegistryError
from tutti.tasks.synthesis import JudgeRequest
from tutti.tasks.synthesis.teacher import BudgetedRequest, TeacherClient, open_store


async def registry(
    folder: Path, served: Mapping[str, str], stack: AsyncExitStack
) -> tuple[Path, dict[str, EngineDouble]]:
    """Write a registry of endpoints by entry, each with its served model name."""
    engines = {name: EngineDouble() for name in served}
    entries = {}
    for name, engine in engines.items():
        server = await stack.enter_async_context(TestServer(engine.application()))
        entry: dict[str, Any] = {"provider": "openai", "endpoint": str(server.make_url("/v1"))}
        entry |= {"context_tokens": 4096, "api_key_env": None, "served_name": served[name]}
        prices = {"prompt": 1.0, "completion": 2.0}
        entries[name] = entry | {"prices": prices}
    file = folder / "models.yaml"
    file.write_text(yaml.safe_dump({"models": entries}))
    return file, engines


class Judges(BudgetedRequest):
    """Request for two models."""

    role = "judge"

    @property
    def models_asked(self) -> tuple[str, ...]:
        return "big", "small"


@pytest.mark.parametrize(
    ("served", "reached"),
    [
        ({"big": "org/big", "small": "org/small"}, ["org/big", "org/small"]),
        ({"big": "org/same", "small": "org/same"}, ["big", "small"]),
    ],
)
async def test_each_is_reached_recorded_and_priced(
    tmp_path: Path, served: dict[str, str], reached: list[str]
) -> None:
    """The order is that of the request, also if one name serves two entries; the gateway's records
    have the role and the program."""
    async with AsyncExitStack() as stack:
        models, engines = await registry(tmp_path, served, stack)
        catalog = stack.enter_context(storage.open_catalog(storage.Home(tmp_path / "home")))
        async with serve_teachers(Judges(), models, catalog, StageLog()) as found:
            assert found is not None
            assert [each.model for each in found.endpoints] == reached
            assert [each and each.completion for each in found.prices] == [2.0, 2.0]
            store = stack.enter_context(open_store(tmp_path / "work"))
            for endpoint in found.endpoints:
                async with TeacherClient(endpoint, store) as client:
                    body = {"messages": [{"role": "user", "content": "2 + 2?"}], "max_tokens": 9}
                    await client.send(body | {"model": endpoint.model}, "q")
        assert [len(engine.requests) for engine in engines.values()] == [1, 1]
        sent = [engine.requests[0][1]["model"] for engine in engines.values()]
        assert sent == list(served.values())
    rows = await asyncio.to_thread(
        storage.query,
        "select role, attempt_id, model from calls order by model",
        storage.Home(tmp_path / "home"),
    )
    program = f"judge-{storage.content_hash(Judges().as_asked)}"
    assert [(row["role"], row["attempt_id"]) for row in rows] == [("judge", program)] * 2
    assert [row["model"] for row in rows] == ["big", "small"]


async def test_an_unknown_teacher_starts_nothing(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        models, _ = await registry(tmp_path, {"big": "big"}, stack)
        catalog = stack.enter_context(storage.open_catalog(storage.Home(tmp_path / "home")))
        request = JudgeRequest(task_set="task_set:1", judge="nobody")
        with pytest.raises(RegistryError, match="no model 'nobody'; known: big"):
            async with serve_teachers(request, models, catalog, StageLog()):
                pass
        assert not catalog.home.logs.exists() or not list(catalog.home.logs.iterdir())
