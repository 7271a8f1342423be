"""Tests of new weights in a running engine: it is paused, loads them, empties its cache and
resumes, or the reason is reported."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tutti.tasks.serving import EngineFailed
from tutti.tasks.serving.engines import load_adapter, swap_weights


class ControlledEngine:
    """Fake of vLLM's development routes."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.answers: dict[str, web.Response] = {}

    async def answer(self, request: web.Request) -> web.Response:
        text = await request.text()
        self.asked.append((request.path_qs, await request.json() if text else None))
        known = {"/reset_prefix_cache": web.json_response({"success": True})}
        return (self.answers | {}).get(request.path) or known.get(request.path) or web.Response()


@asynccontextmanager
async def served(engine: ControlledEngine) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{route:.*}", engine.answer)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


async def swap(engine: ControlledEngine, folder: Path) -> None:
    async with served(engine) as url:
        await swap_weights(url, folder)


async def test_calls_are_kept_and_none_is_answered_from_the_old_cache(tmp_path: Path) -> None:
    """The cache is emptied after the weights are loaded and before anything runs again."""
    engine = ControlledEngine()
    await swap(engine, tmp_path)
    paths = [path for path, _ in engine.asked]
    assert paths == [
        "/pause?mode=keep",
        "/collective_rpc",
        "/reset_prefix_cache?reset_running_requests=true",
        "/resume",
    ]
    assert engine.asked[1][1] == {
        "method": "reload_weights",
        "kwargs": {"weights_path": str(tmp_path.resolve())},
    }


async def test_a_cache_that_was_not_emptied_is_an_error_although_it_answers_200(
    tmp_path: Path,
) -> None:
    engine = ControlledEngine()
    engine.answers["/reset_prefix_cache"] = web.json_response({"success": False})
    with pytest.raises(EngineFailed, match="not emptied"):
        await swap(engine, tmp_path)
    assert engine.asked[-1][0] == "/resume"


async def test_weights_that_do_not_load_are_an_error_with_the_engines_words(
    tmp_path: Path,
) -> None:
    engine = ControlledEngine()
    engine.answers["/collective_rpc"] = web.Response(status=500, text="no such tensor")
    with pytest.raises(EngineFailed, match="HTTP 500: no such tensor"):
        await swap(engine, tmp_path)
    assert engine.asked[-1][0] == "/resume"


async def test_an_adapter_takes_the_place_of_any_other(tmp_path: Path) -> None:
    engine = ControlledEngine()
    models = [{"id": "base", "parent": None}, {"id": "old", "parent": "base"}]
    engine.answers["/v1/models"] = web.json_response({"data": models})
    engine.answers["/v1/load_lora_adapter"] = web.Response(text="Success: LoRA adapter added")
    async with served(engine) as url:
        await load_adapter(url, "new", tmp_path)
    assert [path.rpartition("/")[2].partition("?")[0] for path, _ in engine.asked] == [
        *("models", "unload_lora_adapter", "pause", "load_lora_adapter", "reset_prefix_cache"),
        "resume",
    ]
    assert engine.asked[1][1] == {"lora_name": "old"}
    wanted = {"lora_name": "new", "lora_path": str(tmp_path.resolve()), "load_inplace": True}
    assert engine.asked[3][1] == wanted


async def test_an_adapter_that_does_not_load_is_an_error_with_its_name(tmp_path: Path) -> None:
    engine = ControlledEngine()
    engine.answers["/v1/models"] = web.json_response({"data": []})
    engine.answers["/v1/load_lora_adapter"] = web.Response(status=404, text="no rank 64")
    async with served(engine) as url:
        with pytest.raises(EngineFailed, match=r"'lora_name': 'new'.*HTTP 404: no rank 64"):
            await load_adapter(url, "new", tmp_path)
    assert engine.asked[-1][0] == "/resume"
