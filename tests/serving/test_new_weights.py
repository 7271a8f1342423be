"""New weights in a running engine: paused, loaded, its cache emptied, resumed, or said why not."""

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tutti.tasks.serving import EngineFailed, swap_weights


class ControlledEngine:
    """What vLLM answers to its developers' routes."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.answers: dict[str, web.Response] = {}

    async def answer(self, request: web.Request) -> web.Response:
        text = await request.text()
        self.asked.append((request.path_qs, await request.json() if text else None))
        known = {"/reset_prefix_cache": web.json_response({"success": True})}
        return (self.answers | {}).get(request.path) or known.get(request.path) or web.Response()


async def swap(engine: ControlledEngine, folder: Path) -> None:
    app = web.Application()
    app.router.add_post("/{route}", engine.answer)
    async with TestServer(app) as server:
        await swap_weights(str(server.make_url("")).rstrip("/"), folder)


async def test_calls_are_kept_and_none_is_answered_from_the_old_cache(tmp_path: Path) -> None:
    """The order matters: emptied after the weights are in and before anything runs again."""
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
    """And the engine is resumed all the same."""
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
