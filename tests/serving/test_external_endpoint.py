"""Tests of the checks of an external endpoint before a sweep calls it."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from tutti import storage
from tutti.tasks.serving import EngineFailed
from tutti.tasks.serving.engines import ExternalEndpoint
from tutti.tasks.serving.registry.models import Model


class Server(BaseHTTPRequestHandler):
    """Server that responds with the status of each path, and 404 for others."""

    statuses: ClassVar[dict[str, int]] = {}

    def do_GET(self) -> None:
        self.send_response(self.statuses.get(self.path, 404))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Suppress the log."""


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("statuses", "fields", "message"),
    [
        ({"/health": 200, "/metrics": 200}, {}, ""),
        ({"/health": 200, "/metrics": 401}, {}, ""),  # the gateway sends the entry's key
        ({"/metrics": 200}, {}, "models.m.endpoint: .*/health does not answer"),
        ({}, {"metrics": False}, ""),
    ],
)
def test_an_engine_that_does_not_answer_is_refused_at_the_start(
    url: str,
    statuses: dict[str, int],
    fields: dict[str, bool],
    message: str,
    catalog: storage.Catalog,
) -> None:
    """Otherwise the gateway would hold its first call until the time limit."""
    Server.statuses = statuses
    entry = {"provider": "vllm", "endpoint": f"{url}/v1", "context_tokens": 64} | fields
    endpoint = ExternalEndpoint("m", Model.model_validate(entry), catalog)
    if not message:
        assert endpoint.start() == endpoint.address
        return
    with pytest.raises(EngineFailed, match=message):
        endpoint.start()


def test_an_engine_without_metrics_is_warned_of(
    url: str, catalog: storage.Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    """The gateway limits its calls by count and logs the warning at its start, too."""
    Server.statuses = {}
    entry = {"provider": "vllm", "endpoint": f"{url}/v1", "context_tokens": 64}
    endpoint = ExternalEndpoint("m", Model.model_validate(entry), catalog)
    assert endpoint.start() == endpoint.address
    (said,) = caplog.records
    assert "models.m.metrics: " in said.getMessage() and "`max_calls`" in said.getMessage()
