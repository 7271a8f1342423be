"""Requests that use no KV cache: they are forwarded to an engine without scheduling."""

from collections.abc import Awaitable, Callable
from functools import partial
from urllib.parse import quote

import orjson

from tutti.tasks.serving.gateway.calls.request import (
    NOT_PASSED,
    check_ids,
    name_of,
    read_object,
    with_model,
)
from tutti.tasks.serving.gateway.calls.routes import (
    ADAPTERS,
    AT_THE_ROOT,
    MODELS,
    BadRequest,
    ModelRoute,
)
from tutti.tasks.serving.gateway.endpoints.endpoint import Endpoint, ProbeFailed
from tutti.tasks.serving.gateway.endpoints.pools import Pools
from tutti.tasks.serving.wire.client import Answer
from tutti.tasks.serving.wire.exchange import Exchange
from tutti.tasks.serving.wire.messages import end_to_end
from tutti.tasks.serving.wire.screen import AccessDenied, answer, refusal, refuse

OK = 200


async def forward(pools: Pools, exchange: Exchange, route: ModelRoute, timeout_s: float) -> None:
    """Forward a request to an engine that serves its model, and return the answer."""
    endpoints = [e for e in pools.all_endpoints() if e.reachable]
    if not endpoints:
        answer(exchange, 503, refusal(503, "no engine answers"))
        return
    if route.kind == MODELS and len(endpoints) > 1:
        answer(exchange, 200, _all_models(endpoints))
        return
    try:
        target, model = _target(pools, endpoints, exchange, route)
        ask = partial(_ask, exchange, route, model, timeout_s)
        if route.kind in ADAPTERS:
            found = await _change_adapters(pools, ask, target)
        else:
            found = await ask(target)
    except AccessDenied as denied:
        refuse(exchange, denied)
    except ProbeFailed as error:
        answer(exchange, 502, refusal(502, f"the engine did not answer: {error}"))
    except Exception:  # without this the request would get no answer
        answer(exchange, 500, refusal(500, "the gateway failed"))
        raise
    else:
        exchange.respond(found.status, end_to_end(found.headers), found.body)


def _target(
    pools: Pools, endpoints: list[Endpoint], exchange: Exchange, route: ModelRoute
) -> tuple[Endpoint, str]:
    named = route.kind.partition("/")[2] if route.kind.startswith(MODELS) else ""
    body = {} if exchange.method in (b"GET", b"HEAD") else read_object(exchange)
    model = named or name_of(body.get("model"))
    check_ids(model)
    try:
        pool = pools.find_pool(model) if model else None
    except LookupError as error:
        raise BadRequest(str(error)) from None
    inside = [] if pool is None else [e for e in endpoints if e.name in pool.endpoints]
    if not inside and named:
        raise AccessDenied(404, f"no engine serves {named!r:.200}")
    return (inside or endpoints)[0], model


async def _ask(
    exchange: Exchange, route: ModelRoute, model: str, timeout_s: float, target: Endpoint
) -> Answer:
    headers = [h for h in exchange.headers if h[0].lower() not in NOT_PASSED]
    path = route.path.removeprefix(b"/v1") if route.kind in AT_THE_ROOT else route.path
    served, body = target.served_name(model), exchange.body
    if served != model and route.kind.startswith(MODELS):
        path = path.replace(quote(model, safe="/").encode(), quote(served, safe="/").encode())
    elif served != model:
        body = with_model(body, model, served)
    return await target.ask(
        b"GET" if exchange.method == b"HEAD" else exchange.method,
        path,
        body,
        target.authorize(headers, exchange.permission.key.has_token, path),
        timeout_s,
    )


async def _change_adapters(
    pools: Pools, ask: Callable[[Endpoint], Awaitable[Answer]], target: Endpoint
) -> Answer:
    """Change adapters on every engine of the pool; return the first refusal, if any. Raises
    ProbeFailed."""
    pool, _ = pools.find(target.name)
    engines = [each for each in pool.endpoints.values() if each.reachable]
    found = [await ask(engine) for engine in engines]
    for engine in engines:
        await engine.read_models()
    pools.forget_models()
    return next((each for each in found if each.status != OK), found[0])


def _all_models(endpoints: list[Endpoint]) -> bytes:
    names = sorted({name for endpoint in endpoints for name in endpoint.models})
    listed = [{"id": name, "object": "model", "owned_by": "tutti"} for name in names]
    return orjson.dumps({"object": "list", "data": listed})
