"""An engine or external endpoint behind the gateway: connections, health, limits and metrics.

The metrics read every second are also the health check. An engine that misses three reads in a row
gets no calls until it answers again. Its capacity is then read again, and its cache is assumed
empty if its counters were reset.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode, urlsplit

import orjson
from pydantic import Field, ValidationInfo, field_validator

from tutti.tasks.platform import Strict
from tutti.tasks.serving.metering.metrics import MetricsSampler
from tutti.tasks.serving.registry.models import ApiPath, Model, Prices
from tutti.tasks.serving.scheduling import EngineState, Rate
from tutti.tasks.serving.wire.client import (
    Answer,
    NoAnswer,
    Origin,
    OutgoingRequest,
    Permits,
    Receiver,
    ask,
)
from tutti.tasks.serving.wire.messages import Headers, asked_pause_s, find

PROBE_TIMEOUT_S = 5.0
FAILURES_TO_CLOSE = 3
BREAK_FIRST_S, BREAK_MOST_S = 1.0, 30.0
LONGEST_PAUSE_S, ASK_AGAIN_S = 300.0, 60.0
"""A pause that an endpoint asks for is kept up to the time that a call is held (`--hold-s`). One
that asks for more, which no held call could wait for, is asked again after a minute, in which most
providers count their limits."""
V1 = b"/v1"
KEY_HEADERS = frozenset((b"authorization", b"x-api-key", b"api-key"))
SHORTEST_SECRET = 12
"""Characters. Shorter keys ("none", "EMPTY") are placeholders and occur in answers as words."""


OF_MODEL = (
    *("api_key_env", "api_path", "key_header", "max_calls", "metrics", "prices", "query"),
    *("requests_per_minute", "tokens_per_minute"),
)


class ServedEntry(Strict):
    """An entry of the registry that an endpoint serves."""

    served_name: str = Field(description="the model's name at the endpoint")
    prices: Prices | None = Field(None, description="its own; else those of the price file")


class EndpointConfig(Strict):
    """The configuration of one engine or external endpoint."""

    api_path: ApiPath = Field("/v1", description="path prefix of its API, in place of our /v1")
    url: str = Field(description="base URL, with or without `api_path`")
    id: str = Field("", description="recorded with its calls; the URL if empty")
    pool: str = Field("", description="endpoints of one pool serve the same models")
    models: tuple[str, ...] = Field((), description="models it serves; if empty, it is asked")
    entries: dict[str, ServedEntry] = Field(
        {},
        description="models of the registry that it serves, by the names that calls give; it is "
        "sent the served name",
    )
    capacity_tokens: int | None = Field(
        None, ge=1, description="KV cache; if empty, read from its metrics"
    )
    max_calls: int | None = Field(None, ge=1, description="most calls in flight, if it limits them")
    requests_per_minute: int | None = Field(
        None, ge=1, description="calls per minute that its provider allows"
    )
    tokens_per_minute: int | None = Field(None, ge=1, description="prompts and answers together")
    api_key_env: str | None = Field(None, description="environment variable that holds its key")
    key_header: str = Field(
        "",
        pattern="^[A-Za-z0-9-]*$",
        description="header that carries its key; empty for Authorization (a bearer token), and "
        "x-api-key for Anthropic's messages",
    )
    query: dict[str, str] = Field({}, description="sent with each request: Azure's api-version")
    prices: Prices | None = None
    metrics: bool = Field(True, description="whether it has /metrics and /health, as engines do")
    measure: bool = Field(
        True,
        description="whether prefill time is measured by a few prompts while it is idle",
    )

    @field_validator("url")
    @classmethod
    def _http(cls, url: str, info: ValidationInfo) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("not an http(s) URL")
        # Most clients are given it with the API's path.
        return url.rstrip("/").removesuffix(info.data.get("api_path", "/v1"))

    @classmethod
    def of_model(
        cls, name: str, model: Model, url: str, identity: str, served: str
    ) -> "EndpointConfig":
        """A registry's model that answers at `url` by the name `served`. Raises ValidationError."""
        return cls(
            url=url,
            id=identity,
            models=(name,),
            entries={name: ServedEntry(served_name=served, prices=model.prices)},
            **{name: getattr(model, name) for name in OF_MODEL},
        )

    @property
    def name(self) -> str:
        return self.id or self.url

    def key(self) -> bytes | None:
        """Its API key. Raises ValueError if the environment variable is not set."""
        if self.api_key_env is None:
            return None
        # keys read from files end with a newline
        key = os.environ.get(self.api_key_env, "").strip()
        if not key:
            raise ValueError(f"{self.name}: {self.api_key_env} is not set in the environment")
        return key.encode()


class PrefixedOrigin(Origin):
    """An origin whose API has another path than /v1, or needs a query with each request."""

    def __init__(self, config: EndpointConfig, permits: Permits | None = None) -> None:
        super().__init__(config.url, permits)
        self._begins, self._query = config.api_path.encode(), urlencode(config.query).encode()

    def send(
        self, method: bytes, path: bytes, headers: Headers, body: bytes, receiver: Receiver
    ) -> OutgoingRequest:
        """Send a request to the endpoint's path for `path`."""
        return super().send(method, self.there(path), headers, body, receiver)

    def there(self, path: bytes) -> bytes:
        """The endpoint's path for `path`; paths outside /v1 are unchanged."""
        if path.startswith(V1 + b"/"):
            path = self._begins + path.removeprefix(V1)
        if not self._query:
            return path
        return path + (b"&" if b"?" in path else b"?") + self._query


class ProbeFailed(Exception):
    """A request made by the gateway itself failed."""


@dataclass(eq=False)
class Endpoint:
    """The current state of one engine or external endpoint."""

    config: EndpointConfig
    engine: EngineState
    origin: Origin
    sampler: MetricsSampler
    models: tuple[str, ...] = ()
    context_tokens: int | None = None
    draining: bool = False
    reachable: bool = False
    failures: int = 0
    paused_until: float = 0.0
    """Until this time its circuit is open, or it asked for a pause (429)."""
    pause_reason: str = ""
    calls: int = 0
    failed_calls: int = 0
    weights: str = ""
    """The version of its weights, where somebody changes them while it runs."""
    restarts: int = 0
    finding: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)
    has_metrics: bool = False
    """Whether its capacity was read from its metrics since it was last away."""
    lacks: str = ""
    """Why its load cannot be seen; empty if it can. Its calls are then scheduled by count."""
    kv_usage: float | None = None
    listed: Callable[[str], Prices | None] = lambda model: None
    _key: bytes | None = field(default=None, repr=False)
    _key_header: tuple[bytes, bytes] | None = field(default=None, repr=False)
    _secrets: frozenset[bytes] = KEY_HEADERS

    @classmethod
    def make(cls, config: EndpointConfig, permits: Permits | None = None) -> "Endpoint":
        """Create an endpoint that was not contacted yet. Raises ValueError for an invalid
        config."""
        name = config.name
        engine = EngineState(
            name,
            config.capacity_tokens,
            max_calls=config.max_calls,
            rate=Rate.of(config.requests_per_minute, config.tokens_per_minute),
            accepting=False,
        )
        key = config.key()
        plain = config.api_path == "/v1" and not config.query
        origin = Origin(config.url, permits) if plain else PrefixedOrigin(config, permits)
        made = cls(config, engine, origin, MetricsSampler(name), config.models)
        if key is not None:
            header = config.key_header.encode() or b"Authorization"
            bearer = header.lower() == b"authorization"
            made._key, made._key_header = key, (header, b"Bearer " + key if bearer else key)
            made._secrets = KEY_HEADERS | {header.lower()}
        return made

    @property
    def name(self) -> str:
        return self.engine.engine_id

    def authorize(self, headers: Headers, own_tokens: bool, path: bytes = b"") -> Headers:
        """Headers with the endpoint's own key, in the form of `path`'s protocol. The client's key
        is forwarded only if the gateway has no tokens of its own, so that these never leave it."""
        if self._key is not None or own_tokens:
            headers = [h for h in headers if h[0].lower() not in self._secrets]
        if self._key is None or self._key_header is None:
            return headers
        if not self.config.key_header and path.startswith(b"/v1/messages"):  # Anthropic's
            return [*headers, (b"x-api-key", self._key)]
        return [*headers, self._key_header]

    def without_key(self, body: bytes) -> bytes:
        """Return an answer in which the endpoint's key, if it repeats it, is as many asterisks.
        Some endpoints quote a rejected key in their error, which goes into tables and reports."""
        if self._key is None or len(self._key) < SHORTEST_SECRET:
            return body
        return body.replace(self._key, b"*" * len(self._key))

    def entry_of(self, model: str) -> str | None:
        """The registry's entry that a call means by `model`: its name, else its served name."""
        entries = self.config.entries
        if model in entries:
            return model
        for name, each in entries.items():  # for each call: a generator would take longer
            if each.served_name == model:
                return name
        return None

    def served_name(self, model: str) -> str:
        """Return the served name here of a model that a call names."""
        entry = self.config.entries.get(model)
        return model if entry is None else entry.served_name

    def prices_of(self, model: str) -> Prices | None:
        """Return the entry's or the endpoint's own prices, else the price book's current ones, by
        the name in the registry or at the endpoint; None if unknown."""
        own, name = self.config.prices, self.entry_of(model)
        if name is None:
            return own or self.listed(model)
        entry = self.config.entries[name]
        return entry.prices or self.listed(name) or own or self.listed(entry.served_name)

    def failed(self, now: float, reason: str) -> None:
        """Count a failed call; after several consecutive ones the circuit opens."""
        self.failed_calls += 1
        if now < self.paused_until:
            return  # the call was sent before the circuit opened
        self.failures += 1
        if self.failures >= FAILURES_TO_CLOSE:
            past = self.failures - FAILURES_TO_CLOSE
            pause = min(BREAK_FIRST_S * 2 ** min(past, 10), BREAK_MOST_S)
            self.pause(now + pause, f"{self.failures} failures in a row, the last: {reason}")

    def pause(self, until: float, reason: str) -> None:
        """Send it no calls until the given time."""
        self.paused_until, self.pause_reason = max(self.paused_until, until), reason

    def answered(self) -> None:
        """Reset the count of failures after an answered call."""
        self.failures = 0

    async def ask(
        self,
        method: bytes,
        path: bytes,
        body: bytes = b"",
        headers: Headers | None = None,
        timeout_s: float = PROBE_TIMEOUT_S,
    ) -> Answer:
        """Send an unscheduled request; without headers, the gateway's own. Raises ProbeFailed."""
        if headers is None:
            headers = self.authorize([(b"Accept", b"*/*")], own_tokens=False)
            if body:
                headers = [*headers, (b"Content-Type", b"application/json")]
        try:
            async with asyncio.timeout(timeout_s):
                found = await ask(self.origin, method, path, headers, body)
                return replace(found, body=self.without_key(found.body))
        except TimeoutError:
            raise ProbeFailed(f"no answer in {timeout_s:.0f} s") from None
        except NoAnswer as error:
            raise ProbeFailed(str(error)) from None

    async def read_models(self) -> None:
        """Read which models it serves and their context length. An endpoint whose models are named
        in the configuration needs no list. Raises ProbeFailed."""
        answer = await self.ask(b"GET", b"/v1/models")
        if answer.status >= 500:
            raise ProbeFailed(f"/v1/models answered {answer.status}")
        names, known = self.config.models, list[int]()
        try:
            listed = orjson.loads(answer.body)["data"]
            names = names or tuple(str(each["id"]) for each in listed)
            lengths = [each.get("max_model_len") for each in listed]
            known = [length for length in lengths if isinstance(length, int)]
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            if not names:
                raise ProbeFailed(
                    f"/v1/models (HTTP {answer.status}) is not a list of models: {error!r}; name "
                    "them in the endpoint's `models`"
                ) from None
        self.models, self.context_tokens = names, min(known, default=None)

    def next_probe_s(self) -> float:
        """Seconds until the next probe: longer while it does not answer."""
        return min(0.5 * 2 ** min(self.failures, 4), 5.0) if not self.reachable else 1.0


def retry_after_s(headers: Headers) -> float | None:
    """Return the pause that an answer requests, in seconds; None if it requests none."""
    value = find(headers, b"retry-after")
    seconds = asked_pause_s(None if value is None else value.decode("latin-1"))
    return ASK_AGAIN_S if seconds is not None and seconds > LONGEST_PAUSE_S else seconds
