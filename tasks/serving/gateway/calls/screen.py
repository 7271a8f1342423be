"""Authorization and routing of a request by its head, before its body is read.

In: method, target and the decisive headers. Out: a `Permission` for the handler, or
`RequestRefused` with the answer; the body of a refused request is not kept.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tutti.tasks.serving.gateway.admin.access import Access, Key
from tutti.tasks.serving.gateway.calls.routes import BadRequest, ModelRoute, model_route
from tutti.tasks.serving.wire.exchange import RequestRefused
from tutti.tasks.serving.wire.screen import JSON, Handler, RouteScreen, refusal

ScopedHandler = tuple[str | None, Handler]
"""The scope that a handler needs (None: no token) and the handler."""
Routes = dict[tuple[str, str], ScopedHandler]
"""By method and path."""


class Permission(NamedTuple):
    """An authorised request and its destination."""

    key: Key
    route: ModelRoute | None
    """Set for a request to an engine."""
    handler: Handler | None
    """Set for a request to the gateway itself."""


class RequestScreen(RouteScreen[ScopedHandler]):
    """Authenticates each request by its head and finds its route."""

    def __init__(self, access: Access, handlers: Routes, count: Callable[[str], None]) -> None:
        super().__init__(access.site, handlers, count)
        self.access = access

    def permit(self, method: bytes, target: bytes, known: Mapping[bytes, bytes]) -> Permission:
        """The request's key and destination. Raises AccessDenied, RequestRefused."""
        access = self.access
        if target.startswith((b"/v1/", b"/p/")):
            try:
                route = model_route(method, target)
            except BadRequest as error:
                raise RequestRefused(400, [JSON], refusal(400, str(error))) from None
            return Permission(access.admit(known, route.scope), route, None)
        scope, handler = self.route_of(method, target)
        key = access.everybody if scope is None else access.admit(known, scope)
        return Permission(key, None, handler)
