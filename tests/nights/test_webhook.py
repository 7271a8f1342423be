"""Tests of the webhook for a worse night: bounded, retried where useful, its address a secret."""

import logging
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tutti.tasks.nights.notify import TRIES, VARIABLE, post_webhook

SECRET = "/T0/token"


class Hook:
    """Webhook that responds with `statuses` in turn, then 200."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.heard: list[object] = []

    async def __call__(self, request: web.Request) -> web.Response:
        self.heard.append(await request.json())
        return web.json_response({}, status=self.statuses.pop(0) if self.statuses else 200)


@pytest.fixture
async def hook(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hook]:
    """Yield the webhook that the environment variable names."""
    made, application = Hook(), web.Application()

    async def hear(request: web.Request) -> web.Response:
        return await made(request)

    application.router.add_post(SECRET, hear)
    async with TestServer(application) as server:
        monkeypatch.setenv(VARIABLE, str(server.make_url(SECRET)))
        yield made


async def test_it_is_told_once(hook: Hook) -> None:
    assert await post_webhook({"verdict": "worse"}) is None
    assert hook.heard == [{"verdict": "worse"}]


@pytest.mark.parametrize(
    ("statuses", "tries", "said"),
    [
        ([503, 429], 3, None),
        ([500] * 9, TRIES, "HTTP 500"),
        ([404] * 9, 1, "HTTP 404"),  # it will not come to be there
        ([302], 1, "HTTP 302"),  # a token is sent nowhere else
    ],
)
async def test_it_is_tried_again_where_that_may_help(
    hook: Hook, statuses: list[int], tries: int, said: str | None
) -> None:
    """There are at most three tries; a final failure gives a message, not an error."""
    hook.statuses = statuses
    told = await post_webhook({}, wait_s=0.01)
    assert len(hook.heard) == tries
    assert told is None if said is None else told is not None and told.endswith(said)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/T0/token", "T0/token", "http://[T0/token"])
async def test_no_address_is_no_error(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """The host does not respond or the URL is invalid; the reason does not contain it."""
    monkeypatch.setenv(VARIABLE, url)
    told = await post_webhook({}, wait_s=0)
    assert told is not None and told.startswith(f"{VARIABLE}: not delivered: ")
    assert "T0" not in told and "127" not in told


async def test_without_the_variable_nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert await post_webhook({}) is None


async def test_the_address_is_in_no_log(hook: Hook, caplog: pytest.LogCaptureFixture) -> None:
    """This holds at every log level; loggers are restored afterwards."""
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, "httpx"):
        await post_webhook({})
        assert logging.getLogger("httpx").level == logging.DEBUG
    assert len(hook.heard) == 1
    ours = [each for each in caplog.records if each.name != "aiohttp.access"]  # the hook's own
    assert not [each for each in ours if SECRET in each.getMessage() or "127" in each.getMessage()]
