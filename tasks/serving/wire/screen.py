"""The rules of every HTTP service here: the sites, content types and routes that it serves.

In: the method, target and decisive headers of a request, before its body is read. Out: the handler
of its route, or `RequestRefused` with the answer. The gateway adds tokens and engines' routes.
"""

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import orjson

from tutti.tasks.serving.wire.exchange import Exchange, RequestRefused

JSON = (b"Content-Type", b"application/json")
PLAIN_JSON = b"application/json"
BAD_REQUEST, UNSUPPORTED = 400, 415
OF_PAGES = (b"text/plain", b"multipart/form-data", b"application/x-www-form-urlencoded")
"""Content types that a browser sends to any site from any page without a preflight request."""
HOSTS_KEPT, HOST_KEPT_BYTES = 256, 64

Handler = Callable[[Exchange], None]
Entry = TypeVar("Entry")


class AccessDenied(Exception):
    """The request is refused, with an HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def refusal(status: int, message: str) -> bytes:
    error = {"message": message, "type": "gateway_error", "code": status}
    return orjson.dumps({"error": error})


def refuse(exchange: Exchange, denied: AccessDenied) -> None:
    """Answer with a refusal."""
    answer(exchange, denied.status, refusal(denied.status, str(denied)))


def answer(
    exchange: Exchange, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Answer with JSON and additional `headers`."""
    exchange.respond(status, [JSON, *headers], body)


class SiteGuard:
    """Refuses requests that a browser sends for a page of another site."""

    def __init__(self, hosts: Iterable[str] = (), any_host: bool = False) -> None:
        """`hosts` are names besides this machine's. `any_host`: names are not checked, because
        every request needs a token, which no page has."""
        self._any_host = any_host
        self._names = frozenset(name.lower() for name in hosts)
        self._known_hosts: set[bytes] = {b""}

    def check(self, known: Mapping[bytes, bytes]) -> None:
        """Refuse cross-site requests. Raises AccessDenied. A request is cross-site if it has a
        foreign Origin header, or a Host header that this service does not serve (DNS rebinding).
        `known` holds the headers by lower-case name."""
        host = known.get(b"host", b"")
        origin = known.get(b"origin")
        if origin is not None and origin.partition(b"://")[2].lower() != host.lower():
            shown = origin.decode("latin-1")
            raise AccessDenied(
                403, f"requests from pages of another site are refused (Origin: {shown:.100})"
            )
        if not self._any_host and host not in self._known_hosts:
            self._check_name(host)

    def _check_name(self, host: bytes) -> None:
        name = _name_of(host)
        if not (name in self._names or _is_this_machine(name)):
            raise AccessDenied(
                403,
                f"the request is for the host {name!r:.100}, which is not a name of this service; "
                "use its address, or start a gateway with --allow-host",
            )
        if len(self._known_hosts) < HOSTS_KEPT and len(host) <= HOST_KEPT_BYTES:
            self._known_hosts.add(host)


class RouteScreen(Generic[Entry]):
    """Checks each request's head and looks up the service's entry for its route."""

    def __init__(
        self,
        site: SiteGuard,
        routes: Mapping[tuple[str, str], Entry],
        count: Callable[[str], None] = lambda name: None,
    ) -> None:
        """`routes` are by method and path; a path that ends in / matches every path below it.
        `count` is called with "denied" for a request that is refused."""
        self._site, self._routes, self._count = site, routes, count

    def __call__(self, method: bytes, target: bytes, known: Mapping[bytes, bytes]) -> Any:
        """Check a request's head. Raises RequestRefused."""
        try:
            self._site.check(known)
            permission = self.permit(method, target, known)
            kind = known.get(b"content-type")
            if kind != PLAIN_JSON and kind is not None and kind.lower().startswith(OF_PAGES):
                raise AccessDenied(
                    UNSUPPORTED, "the body must be JSON, with Content-Type: application/json"
                )
        except AccessDenied as denied:
            if denied.status != BAD_REQUEST:
                self._count("denied")
            refused = refusal(denied.status, str(denied))
            raise RequestRefused(denied.status, [JSON], refused) from None
        return permission

    def permit(self, method: bytes, target: bytes, known: Mapping[bytes, bytes]) -> Any:
        """The permission that the handler of an accepted request gets. Raises AccessDenied."""
        return self.route_of(method, target)

    def route_of(self, method: bytes, target: bytes) -> Entry:
        """The entry of a route. Raises AccessDenied."""
        path = target.partition(b"?")[0].decode("latin-1")
        wanted = "GET" if method == b"HEAD" else method.decode("latin-1")
        found = self._routes.get((wanted, path))
        if found is None:
            for (method_of, start), each in self._routes.items():
                if method_of == wanted and start.endswith("/") and path.startswith(start):
                    return each
            raise AccessDenied(404, f"no route {wanted} {path[:200]}")
        return found


def _name_of(host: bytes) -> str | None:
    try:
        return urlsplit(f"//{host.decode('ascii')}").hostname
    except ValueError:
        return None


def _is_this_machine(name: str | None) -> bool:
    """Whether `name` is loopback or an address, so that DNS cannot redirect it."""
    if name is None:
        return False
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
