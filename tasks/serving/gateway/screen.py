"""What a request may, decided by its head: where it goes, by whose leave.

In: method, target, the headers that count. Out: a `Pass` for the handler, or `Refused` with the
answer; of a refused request no body is kept.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import orjson

from tutti.tasks.serving.gateway.access import Access, Denied, Key
from tutti.tasks.serving.gateway.routes import BadRequest, ModelRoute, model_route
from tutti.tasks.serving.wire.exchange import Exchange, Refused

JSON = (b"Content-Type", b"application/json")
PLAIN_JSON = b"application/json"
UNSUPPORTED = 415
OF_PAGES = (b"text/plain", b"multipart/form-data", b"application/x-www-form-urlencoded")
"""Bodies that a browser sends to any site for any page, without asking the site first."""

Order = Callable[[Exchange], None]
Routes = dict[tuple[str, str], tuple[str | None, Order]]
"""By method and path: the scope that an order needs, None for none, and the order. A path that ends
in / takes what follows."""


def refusal(status: int, message: str) -> bytes:
    """An error's body, as OpenAI's clients read it."""
    error = {"message": message, "type": "gateway_error", "code": status}
    return orjson.dumps({"error": error})


def answer(exchange: Exchange, status: int, body: bytes) -> None:
    """A JSON answer."""
    exchange.respond(status, [JSON], body)


class Pass(NamedTuple):
    """A request that may go on."""

    key: Key
    route: ModelRoute | None
    """Where it is for an engine."""
    order: Order | None
    """Where it is for the gateway itself."""


class Screen:
    """The screen of one gateway."""

    def __init__(self, access: Access, orders: Routes, count: Callable[[str], None]) -> None:
        self.access, self._orders, self._count = access, orders, count

    def __call__(self, method: bytes, target: bytes, known: Mapping[bytes, bytes]) -> Pass:
        """Raises Refused."""
        try:
            return self._pass(method, target, known)
        except Denied as denied:
            self._count("denied")
            status, message = denied.status, str(denied)
        except BadRequest as error:
            status, message = 400, str(error)
        raise Refused(status, [JSON], refusal(status, message))

    def _pass(self, method: bytes, target: bytes, known: Mapping[bytes, bytes]) -> Pass:
        access = self.access
        access.check_site(known)
        if target.startswith((b"/v1/", b"/p/")):
            route = model_route(method, target)
            key, order = access.admit(known, route.scope), None
        else:
            route = None
            scope, order = self._order(method, target)
            key = access.everybody if scope is None else access.admit(known, scope)
        kind = known.get(b"content-type")
        if kind != PLAIN_JSON and kind is not None and kind.lower().startswith(OF_PAGES):
            raise Denied(UNSUPPORTED, "the body must be JSON, with Content-Type: application/json")
        return Pass(key, route, order)

    def _order(self, method: bytes, target: bytes) -> tuple[str | None, Order]:
        path = target.partition(b"?")[0].decode("latin-1")
        asked = "GET" if method == b"HEAD" else method.decode("latin-1")
        found = self._orders.get((asked, path))
        if found is None:
            for (wanted, start), each in self._orders.items():
                if wanted == asked and start.endswith("/") and path.startswith(start):
                    return each
            raise Denied(404, f"no route {asked} {path[:200]}")
        return found
