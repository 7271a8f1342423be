"""Requests that take no room in an engine's cache: passed on as they are, or the gateway's own."""

from typing import Protocol

import orjson

from tasks.serving.gateway.endpoint import Endpoint, ProbeFailed
from tasks.serving.gateway.passage import answer, refusal
from tasks.serving.gateway.pools import Pool, Pools
from tasks.serving.gateway.request import ADAPTERS, NOT_PASSED, kind_of
from tasks.serving.wire.messages import end_to_end
from tasks.serving.wire.server import Exchange
from tasks.serving.wire.whole import Answer

AT_THE_ROOT = frozenset((b"/v1/tokenize", b"/v1/detokenize"))
"""Engines have them beside /v1; clients that know one base URL only ask below it."""


OK = 200


class _Settings(Protocol):
    @property
    def upstream_s(self) -> float:
        """The longest silence of an engine."""


class Owner(Protocol):
    """What forwarding needs of its gateway."""

    pools: Pools
    has_tokens: bool

    @property
    def settings(self) -> _Settings:
        """How the gateway behaves."""


async def forward(owner: Owner, exchange: Exchange, path: bytes) -> None:
    """Pass a request on to an engine that serves its model, and the answer back."""
    endpoints = [e for e in owner.pools.all_endpoints() if e.reachable]
    bare = path.partition(b"?")[0]
    if not path.startswith(b"/v1/") and b"/v1" + bare not in AT_THE_ROOT:
        answer(exchange, 404, refusal(404, "engines' own orders are not passed on"))
        return
    if not endpoints:
        answer(exchange, 503, refusal(503, "no engine answers"))
        return
    if bare == b"/v1/models" and len(endpoints) > 1:
        answer(exchange, 200, _all_models(endpoints))
        return
    model = _model_of(exchange.body)
    target = next((e for e in endpoints if model in e.models), endpoints[0])
    asked = path.removeprefix(b"/v1") if bare in AT_THE_ROOT else path
    try:
        if kind_of(path) in ADAPTERS:
            found = await _change_adapters(owner, exchange, asked, target)
        else:
            found = await _ask(owner, exchange, asked, target)
    except ProbeFailed as error:
        answer(exchange, 502, refusal(502, f"the engine did not answer: {error}"))
        return
    exchange.respond(found.status, end_to_end(found.headers), found.body)


async def _ask(owner: Owner, exchange: Exchange, path: bytes, target: Endpoint) -> Answer:
    headers = [h for h in exchange.headers if h[0].lower() not in NOT_PASSED]
    return await target.ask(
        b"GET" if exchange.method == b"HEAD" else exchange.method,
        path,
        exchange.body,
        target.authorize(headers, owner.has_tokens, path),
        owner.settings.upstream_s,
    )


async def _change_adapters(
    owner: Owner, exchange: Exchange, path: bytes, target: Endpoint
) -> Answer:
    """On every engine of the pool, for a call may go to any; the first that refuses is heard.

    Raises ProbeFailed.
    """
    pool, _ = owner.pools.find(target.name)
    engines = [each for each in pool.endpoints.values() if each.reachable]
    found = [await _ask(owner, exchange, path, engine) for engine in engines]
    for engine in engines:
        await engine.read_models()
    owner.pools.forget_models()
    return next((each for each in found if each.status != OK), found[0])


async def measure(pool: Pool, wanted: bytes) -> int | None:
    """How many tokens a prompt has, by an engine's tokenizer. Raises ProbeFailed."""
    reachable = [e for e in pool.endpoints.values() if e.reachable and e.config.metrics]
    if not reachable:
        return None
    found = await reachable[0].ask(b"POST", b"/tokenize", wanted)
    try:
        said = orjson.loads(found.body) if found.status == 200 else None
    except orjson.JSONDecodeError as error:
        raise ProbeFailed(f"/tokenize made no sense: {error}") from None
    count = said.get("count") if isinstance(said, dict) else None
    return count if isinstance(count, int) else None


def _all_models(endpoints: list[Endpoint]) -> bytes:
    names = sorted({name for endpoint in endpoints for name in endpoint.models})
    listed = [{"id": name, "object": "model", "owned_by": "tutti"} for name in names]
    return orjson.dumps({"object": "list", "data": listed})


def _model_of(body: bytes) -> str:
    try:
        parsed = orjson.loads(body) if body else None
    except orjson.JSONDecodeError:
        return ""
    return str(parsed.get("model") or "") if isinstance(parsed, dict) else ""
