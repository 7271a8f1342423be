"""Authorization and routing of a request by its head, before its body is read.

In: method, target and the decisive headers. Out: a `Permission` for the handler, or
`RequestRefused` with the answer; the body of a refused request is not kept.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import orjson

from tutti.tasks.serving.gateway.admin.access import Access, AccessDenied, Key
from tutti.tasks.serving.gateway.calls.routes import BadRequest, ModelRoute, model_route
from tutti.tasks.serving.wire.exchange import Exchange, RequestRefused

JSON = (b"Content-Type", b"application/json")
PLAIN_JSON = b"application/json"
UNSUPPORTED = 415
OF_PAGES = (b"text/plain", b"multipart/form-data", b"application/x-www-form-urlencoded")
"""Content types that a browser sends to any site from any page without a preflight request."""

AdminHandler = Callable[[Exchange], None]
Routes = dict[tuple[str, str], tuple[str | None, AdminHandler]]
"""By method and path: the scope that a handler needs (None: no token) and the handler. A path that
ends in / matches every path below it."""


def refusal(status: int, message: str) -> bytes:
    """An error body in OpenAI's format."""
    error = {"message": message, "type": "gateway_error", "code": status}
    return orjson.dumps({"error": error})


def answer(
    exchange: Exchange, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Answer with JSON and additional `headers`."""
    exchange.respond(status, [JSON, *headers], body)


class Permission(NamedTuple):
    """An authorised request and its destination."""

    key: Key
    route: ModelRoute | None
    """Set for a request to an engine."""
    handler: AdminHandler | None
    """Set for a request to the gateway itself."""


class RequestScreen:
    """Authenticates each request by its head and finds its route."""

    def __init__(self, access: Access, handlers: Routes, count: Callable[[str], None]) -> None:
        self.access, self._handlers, self._count = access, handlers, count

    def __call__(self, method: bytes, target: bytes, known: Mapping[bytes, bytes]) -> Permission:
        """Check a request's head. Raises RequestRefused."""
        try:
            return self._pass(method, target, known)
        except AccessDenied as denied:
            self._count("denied")
            status, message = denied.status, str(denied)
        except BadRequest as error:
            status, message = 400, str(error)
        raise RequestRefused(status, [JSON], refusal(status, message))

    def _pass(self, method: bytes, target: bytes, known: Mapping[bytes, bytes]) -> Permission:
        access = self.access
        access.check_site(known)
        if target.startswith((b"/v1/", b"/p/")):
            route = model_route(method, target)
            key, handler = access.admit(known, route.scope), None
        else:
            route = None
            scope, handler = self._handler(method, target)
            key = access.everybody if scope is None else access.admit(known, scope)
        kind = known.get(b"content-type")
        if kind != PLAIN_JSON and kind is not None and kind.lower().startswith(OF_PAGES):
            raise AccessDenied(
                UNSUPPORTED, "the body must be JSON, with Content-Type: application/json"
            )
        return Permission(key, route, handler)

    def _handler(self, method: bytes, target: bytes) -> tuple[str | None, AdminHandler]:
        path = target.partition(b"?")[0].decode("latin-1")
        wanted = "GET" if method == b"HEAD" else method.decode("latin-1")
        found = self._handlers.get((wanted, path))
        if found is None:
            for (method_of, start), each in self._handlers.items():
                if method_of == wanted and start.endswith("/") and path.startswith(start):
                    return each
            raise AccessDenied(404, f"no route {wanted} {path[:200]}")
        return found
