"""Tests of the first call to an endpoint: a transient error is retried, others end the run."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.serving.engine_double import EngineDouble, is_first_call
from tests.sweeps.run.test_restarts import suite_of
from tutti import storage
from tutti.tasks.platform.progress import StageLog
from tutti.tasks.platform.progress.runs import Run
from tutti.tasks.serving import EngineFailed
from tutti.tasks.sweeps.plan import deployment
from tutti.tasks.sweeps.run.sweep import run_suite

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def half_body(request: web.Request) -> web.StreamResponse:
    """Cut the connection in the middle of the response."""
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"choices": [')
    assert request.transport is not None
    request.transport.abort()
    return response


async def half_json(request: web.Request) -> web.StreamResponse:
    return web.Response(text='{"choices": [', content_type="application/json")


def status(code: int) -> Answer:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": "no"}, status=code)

    return refuse


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "RETRY", replace(deployment.RETRY, first_s=0.01, most_s=0.02))


async def measured(tmp_path: Path, fault: Answer, times: int) -> tuple[int, list[dict[str, Any]]]:
    """Run a sweep whose endpoint fails `times` times at first, and return the number of calls and
    the cells."""
    double = EngineDouble()
    left = [fault] * times

    async def reply(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return await left.pop()(request) if left else await double.answer(request, body)

    double.reply = reply
    with storage.open_catalog(storage.Home(tmp_path / "store")) as catalog:
        async with TestServer(double.application()) as server:
            entry: dict[str, Any] = {"provider": "openai", "context_tokens": 4096}
            entry |= {"api_key_env": None, "endpoint": str(server.make_url("/v1"))}
            models = tmp_path / "models.yaml"
            models.write_text(yaml.safe_dump({"models": {"a": entry | {"served_name": "m"}}}))
            try:
                await run_suite(suite_of(tmp_path), models, None, Run(catalog, "run:1", StageLog()))
            finally:
                asked = sum(is_first_call(body) for _, body in double.requests)
        finished = (
            "select status, n from cells join (select cell_id, n from results) using (cell_id)"
        )
        return asked, storage.query(finished, catalog.home)


@pytest.mark.parametrize("fault", [status(500), status(502), half_body, half_json])
async def test_one_error_that_passes_does_not_end_the_run(tmp_path: Path, fault: Answer) -> None:
    """Everything is measured afterwards."""
    assert await measured(tmp_path, fault, 1) == (2, [{"status": "finished", "n": 1}])


@pytest.mark.parametrize("fault", [status(500), half_json])
async def test_an_error_that_stays_is_one_message_after_the_tries(
    tmp_path: Path, fault: Answer
) -> None:
    """The message says what to do."""
    words = r"models\.a failed its first call and 4 tries after it: HTTP .*\n"
    with pytest.raises(EngineFailed, match=words) as failed:
        await measured(tmp_path, fault, 99)
    assert "Correct its entry, its key or its server" in str(failed.value)


async def test_an_error_that_does_not_pass_ends_the_run_at_once(tmp_path: Path) -> None:
    with pytest.raises(EngineFailed, match="failed its first call: HTTP 401"):
        await measured(tmp_path, status(401), 99)
