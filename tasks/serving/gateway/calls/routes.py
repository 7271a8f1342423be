"""The requests that are forwarded to engines, and the authorization of each request by its head.

Only listed methods and paths are forwarded: a provider's other paths belong to its account. The
path is decoded once and matched as decoded, so that the engine sees the path that was authorised.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote, unquote, unquote_to_bytes

from tutti.tasks.serving.gateway.calls.access import Access, Key
from tutti.tasks.serving.wire.screen import AccessDenied, Handler, RouteScreen

CALLS = frozenset(
    "chat/completions completions responses messages "
    "embeddings pooling classify score rerank".split()
)
"""POST paths that use an engine's KV cache: they are scheduled and recorded."""
ADAPTERS = frozenset(("load_lora_adapter", "unload_lora_adapter"))
"""Admin requests that change the adapters that an engine serves; sent to all engines of the
pool."""
SIZES = frozenset(("tokenize", "detokenize", "messages/count_tokens"))
"""POST paths that use no KV cache."""
MODELS = "models"
AT_THE_ROOT = frozenset(("tokenize", "detokenize"))
"""Engines serve these at the root; clients with one base URL request them below /v1."""
V1 = b"/v1/"


class BadRequest(AccessDenied):
    """The request is invalid; the message gives the reason."""

    def __init__(self, message: str) -> None:
        super().__init__(400, message)


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """A request for an engine."""

    path: bytes
    kind: str
    program: str | None

    scope: str
    is_call: bool


_KNOWN: dict[tuple[bytes, bytes], ModelRoute] = {}
ROUTES_KEPT, TARGET_KEPT_BYTES = 1024, 64


def model_route(method: bytes, target: bytes) -> ModelRoute:
    """The route of a request below /v1 or /p/<program>/v1. Raises BadRequest, AccessDenied."""
    known = _KNOWN.get((method, target))
    if known is not None:
        return known
    found = _read_route(method, target)
    # Most clients repeat the same path; one that names its program does not.
    if found.program is None and len(target) <= TARGET_KEPT_BYTES and len(_KNOWN) < ROUTES_KEPT:
        _KNOWN[method, target] = found
    return found


def _read_route(method: bytes, target: bytes) -> ModelRoute:
    whole, program = _split(target)
    path, mark, query = whole.partition(b"?")
    if b"%" in path:
        path = unquote_to_bytes(path)
    if program is not None and path[1:].decode("latin-1") in AT_THE_ROOT:
        path = V1 + path[1:]
    kind = path.removeprefix(V1).decode("latin-1") if path.startswith(V1) else ""
    wanted = _method(kind)
    if wanted is None:
        shown = path.decode("latin-1")
        raise AccessDenied(
            404, f"{shown!r:.200} is not forwarded: it is not one of the gateway's routes"
        )
    if method != wanted and not (wanted == b"GET" and method == b"HEAD"):
        raise AccessDenied(405, f"/v1/{kind} takes {wanted.decode()}")
    if kind.startswith(MODELS):
        path = V1 + quote(kind, safe="/").encode()
    scope = "admin" if kind in ADAPTERS else "call"
    return ModelRoute(path + mark + query, kind, program, scope, kind in CALLS)


def _method(kind: str) -> bytes | None:
    if kind in CALLS or kind in SIZES or kind in ADAPTERS:
        return b"POST"
    return b"GET" if kind == MODELS or kind.startswith(MODELS + "/") else None


def _split(target: bytes) -> tuple[bytes, str | None]:
    if not target.startswith(b"/p/"):
        return target, None
    name, slash, rest = target[3:].partition(b"/")
    program = unquote(name.decode("latin-1"))
    if not program or not slash:
        raise BadRequest("the path must be /p/<program>/v1/…")
    return b"/" + rest, program


ScopedHandler = tuple[str | None, Handler]
Routes = dict[tuple[str, str], ScopedHandler]


class Permission(NamedTuple):
    """An authorised request and its destination."""

    key: Key
    route: ModelRoute | None
    handler: Handler | None


class RequestScreen(RouteScreen[ScopedHandler]):
    """Authenticates each request by its head and finds its route."""

    def __init__(self, access: Access, handlers: Routes, count: Callable[[str], None]) -> None:
        super().__init__(access.site, handlers, count)
        self.access = access

    def permit(self, method: bytes, target: bytes, known: Mapping[bytes, bytes]) -> Permission:
        """The request's key and destination. Raises AccessDenied."""
        access = self.access
        if target.startswith((b"/v1/", b"/p/")):
            route = model_route(method, target)
            return Permission(access.admit(known, route.scope), route, None)
        scope, handler = self.route_of(method, target)
        key = access.everybody if scope is None else access.admit(known, scope)
        return Permission(key, None, handler)
