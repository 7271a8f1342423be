"""A client of the retrieval service, which runs in a thread."""

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.listening import listening
from tutti.tasks.retrieval.service import Options, open_service

ANSWER_S = 60.0


@dataclass(frozen=True)
class ServiceAnswer:
    """Response of the service."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class ServiceClient:
    """Client of the service at a port, with a new connection for each request."""

    port: int

    def post(self, body: Any, headers: Mapping[str, str] | None = None) -> ServiceAnswer:
        """Send a search; `body` is sent as JSON unless it is bytes."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.ask("POST", "/retrieve", data, headers)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ServiceAnswer:
        """Send any request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)
        try:
            kind = {"Content-Type": "application/json"}
            connection.request(method, path, body, kind | dict(headers or {}))
            answer = connection.getresponse()
            return ServiceAnswer(answer.status, dict(answer.headers), answer.read())
        finally:
            connection.close()


@contextmanager
def serving(folder: Path, options: Options | None = None) -> Iterator[ServiceClient]:
    """Run the service over the index in `folder` for the block."""
    with listening(open_service(folder, options)) as port:
        yield ServiceClient(port)
