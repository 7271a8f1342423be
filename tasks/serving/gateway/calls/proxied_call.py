"""One call through the gateway: held, sent, answered. It ends exactly once.

The connections on both sides call its methods. It changes only its own state. The gateway enters it
in the ledger; only `_close` ends it there.
"""

import time
from enum import Enum
from typing import Any, Protocol

import orjson

from tutti.tasks.serving.gateway.calls.access import Key
from tutti.tasks.serving.gateway.calls.record import CallRecord
from tutti.tasks.serving.gateway.calls.request import CallRequest, ask_for_usage
from tutti.tasks.serving.gateway.calls.stream import (
    StreamedAnswer,
    StreamTooLong,
    ask_for_tokens,
    without_tokens,
)
from tutti.tasks.serving.gateway.endpoints.endpoint import Endpoint, retry_after_s
from tutti.tasks.serving.gateway.endpoints.pools import Pool
from tutti.tasks.serving.scheduling import CLIENT_GONE, Call, Reason, ReasonCode
from tutti.tasks.serving.wire.client import OutgoingRequest, Receiver
from tutti.tasks.serving.wire.exchange import Exchange
from tutti.tasks.serving.wire.messages import Headers, end_to_end, find, unzipped
from tutti.tasks.serving.wire.screen import answer, refusal

FAILED, MAX_TRIES = ReasonCode.ENGINE_FAILED, 3
MAX_BUFFERED, MAX_UNZIPPED = 32 * 2**20, 16 * 2**20
EVENTS = (b"Content-Type", b"text/event-stream; charset=utf-8")
TRY_ELSEWHERE = frozenset((502, 503, 504))
TOO_MANY, FAULT = 429, 500
PROGRESS_EVERY = 32  # events


class CallState(Enum):
    """The stage that a call is in."""

    HELD = "held"
    SENT = "sent"
    STREAMING = "streaming"
    OVER = "over"


class CallOwner(Protocol):
    """The interface of the gateway that a proxied call uses."""

    record_tokens: bool

    def send_admitted(self, pool: Pool, calls: list[Call]) -> None: ...

    def note_admitted(self, proxied: "ProxiedCall") -> None: ...

    def ended(self, proxied: "ProxiedCall") -> None: ...

    def report(self, error: Exception) -> None: ...

    def endpoint_changed(self, endpoint: Endpoint) -> None: ...


class ProxiedCall(Receiver):
    """A model call from its arrival to its end."""

    __slots__ = (
        "_added", "_body", "_head", "_stream", "_tried", "_upstream", "active_at", "call", "chain",
        "chunks", "commented", "endpoint", "exchange", "key", "owner", "paused", "pool",
        "prompt_bytes", "record", "request", "scheduler", "state",
    )  # fmt: skip

    def __init__(
        self, owner: CallOwner, pool: Pool, exchange: Exchange, request: CallRequest, key: Key
    ) -> None:
        self.owner, self.pool, self.exchange = owner, pool, exchange
        self.request, self.key = request, key
        # a new cell has a new scheduler; this call ends with its own
        self.scheduler = pool.scheduler
        self.record = CallRecord(request, model=pool.entry_of(request.model) or request.model)
        self.prompt_bytes = len(request.raw)
        self.state = CallState.HELD
        self.call: Call | None = None
        self.chain: tuple[int, ...] = ()
        self.endpoint: Endpoint | None = None
        self.active_at = self.commented = self.record.sent
        self.chunks = 0
        self._upstream: OutgoingRequest | None = None
        self._head: Headers = []
        self._body: list[bytes] = []
        self._added: dict[str, Any] = {}  # asked for by the gateway only
        self._stream = StreamedAnswer(self.record.answered, strip=False)
        self._tried: set[str] = set()
        self.paused = False
        """Whether the client reads too slowly, so that the engine's silence is not its fault."""

    def comment(self, now: float, text: str) -> None:
        """Send a comment to a held stream, so that its client does not time out."""
        if not self.exchange.started:
            self.exchange.start(200, [EVENTS, (b"Cache-Control", b"no-cache")])
        self.exchange.send(b": %b\n\n" % text.encode())
        self.commented = now

    def refuse(
        self, status: int, message: str, headers: Headers | None = None, code: ReasonCode = FAILED
    ) -> None:
        """End the call with an error from the gateway."""
        if self.state is CallState.OVER:
            return
        self.record.http_status = status
        exchange = self.exchange
        if self.state is CallState.STREAMING:
            exchange.abort()  # part of the answer is sent; cutting it off shows the failure
        elif exchange.started:
            exchange.send(b"data: %b\n\n" % refusal(status, message))
            exchange.end()
        else:
            answer(exchange, status, refusal(status, message), headers or ())
        if self._upstream is not None:
            self._upstream.cancel()
        self._close(Reason(code, message))

    def gone(self) -> None:
        """The client disconnected: cancel the hold, or the request to the engine."""
        if self.state is CallState.OVER:
            return
        self.record.status = "cancelled"
        try:
            if self.state is CallState.STREAMING:
                self._stream.read_usage(self.record.reported)  # some engines send it all along
        except Exception as error:
            self.owner.report(error)
        if self._upstream is not None:
            self._upstream.cancel()
        self._close(CLIENT_GONE)

    def fail(self, error: Exception) -> None:
        """End this call with 500 after an internal error; other calls are not affected."""
        self.owner.report(error)
        if self.state is CallState.OVER:
            return
        self.record.status, self.record.http_status = "infra_error", FAULT
        if self._upstream is not None:
            self._upstream.cancel()
            self._upstream = None
        try:
            if self.exchange.started:
                self.exchange.abort()
            else:
                answer(self.exchange, FAULT, refusal(FAULT, "the gateway failed"))
        except Exception as another:
            self.owner.report(another)
            self.exchange.abort()
        self._close(Reason(ReasonCode.GATEWAY_FAILED, f"the gateway failed: {error!r}"))

    def send(self) -> None:
        """Send the call, which the scheduler admitted, to its engine."""
        try:
            self._send()
        except Exception as error:
            self.fail(error)

    def _send(self) -> None:
        call = self.call
        assert call is not None and call.engine is not None
        now = time.monotonic()
        self.endpoint = endpoint = self.pool.endpoints[call.engine.engine_id]
        if not self._tried:
            self.owner.note_admitted(self)
            self._prepare()
        self.record.held_s = now - self.record.sent
        self.record.goes_to(endpoint)
        self.state, self.active_at = CallState.SENT, now
        self._tried.add(endpoint.name)
        self._head, self._body, self.chunks = [], [], 0
        request = self.request
        headers = endpoint.authorize(request.headers, self.key.has_token, request.path)
        endpoint.calls += 1
        raw = request.body_for(self.record.served_name)
        self._upstream = endpoint.origin.send(b"POST", request.path, headers, raw, self)

    def _prepare(self) -> None:
        request = self.request
        if self.owner.record_tokens and request.kind == "chat/completions":
            self._added = ask_for_tokens(request)
            self.record.records_tokens = True
        ask_for_usage(request)
        if request.usage_added or self._added:
            self._stream = StreamedAnswer(self.record.answered, request.usage_added, self._added)
        self.exchange.on_writable = self._writable

    def _writable(self, writable: bool) -> None:
        self.paused, self.active_at = not writable, time.monotonic()
        if self._upstream is not None:
            self._upstream.pause(not writable)

    def on_head(self, status: int, headers: Headers) -> None:
        try:
            self._begin(status, headers)
        except Exception as error:
            self.fail(error)

    def on_data(self, data: bytes) -> None:
        try:
            self._take(data)
        except StreamTooLong as error:
            self.refuse(502, str(error))
        except Exception as error:
            self.fail(error)

    def on_end(self) -> None:
        self._upstream = None
        try:
            if self.state is CallState.STREAMING:
                self._end_stream()
            else:
                self._end_whole()
        except Exception as error:
            self.fail(error)

    def on_failure(self, reason: str) -> None:
        self.record.was_taken &= self._upstream is not None and self._upstream.sent_at > 0
        self._upstream = None
        try:
            self._break(reason)
        except Exception as error:
            self.fail(error)

    def _begin(self, status: int, headers: Headers) -> None:
        self.active_at = time.monotonic()
        self.record.http_status, self.record.was_taken = status, status < 400
        self._head = headers
        kind = find(headers, b"content-type") or b""
        if status == 200 and kind.startswith(b"text/event-stream"):
            self.state, self.record.streamed = CallState.STREAMING, True
            if not self.exchange.started:
                self.exchange.start(status, self._passed())
            assert self.endpoint is not None
            self.endpoint.answered()

    def _take(self, data: bytes) -> None:
        record = self.record
        self.active_at = time.monotonic()
        if self.state is not CallState.STREAMING:
            self._body.append(data)
            self.chunks += len(data)
            if self.chunks > MAX_BUFFERED:
                self.refuse(502, f"the answer is larger than {MAX_BUFFERED} bytes")
            return
        if record.ttft_s is None and b"data:" in data:
            record.ttft_s = self.active_at - record.sent
            call = self.call
            assert call is not None
            self.scheduler.first_token(call, self.active_at)
        record.body_bytes += len(data)
        before = self.chunks // PROGRESS_EVERY
        self.chunks += data.count(b"data:")
        if self.chunks // PROGRESS_EVERY > before:
            self._progress()
        self.exchange.send(self._stream.take(data))

    def _break(self, reason: str) -> None:
        endpoint = self.endpoint
        if self.state is CallState.OVER or endpoint is None:
            return
        endpoint.failed(time.monotonic(), reason)
        self.owner.endpoint_changed(endpoint)
        if self.state is CallState.STREAMING:
            self.record.http_status = 502
            self.exchange.abort()
            self._close(Reason(ReasonCode.ENGINE_FAILED, reason))
        elif not self._elsewhere(reason):
            self.refuse(502, f"the engine did not answer: {reason}", [(b"Retry-After", b"1")])

    def _elsewhere(self, reason: str) -> bool:
        """Send a call that has no token yet to another engine; return whether there was one."""
        call = self.call
        if call is None or len(self._tried) >= MAX_TRIES or self.state is CallState.OVER:
            return False
        if self.scheduler is not self.pool.scheduler:
            return False
        others = [e for e in self.pool.endpoints.values() if e.name not in self._tried]
        target = min(
            (e.engine for e in others if e.engine.open),
            key=lambda engine: len(engine.running),
            default=None,
        )
        if target is None:
            return False
        self.record.retry += 1
        admitted = self.scheduler.move(call, target, time.monotonic())
        self.send()
        self.owner.send_admitted(self.pool, admitted)
        return True

    def _end_whole(self) -> None:
        record, endpoint = self.record, self.endpoint
        assert endpoint is not None
        status, body = record.http_status or 502, endpoint.without_key(b"".join(self._body))
        if status in TRY_ELSEWHERE:
            endpoint.failed(time.monotonic(), f"HTTP {status}")
            self.owner.endpoint_changed(endpoint)
            if self._elsewhere(f"HTTP {status}"):
                return
        elif status == TOO_MANY:
            if self._wait_its_turn(endpoint):
                return
        elif status < 500:
            endpoint.answered()
        if status >= 400 and status not in TRY_ELSEWHERE:  # those are counted already
            endpoint.failed_calls += 1
        headers = self._passed()
        record.body_bytes = len(body)
        if status == 200:
            sound = record.read_whole(unzipped(body, MAX_UNZIPPED), at_once=bool(self._added))
            record.status = "ok" if sound else "infra_error"
            if self._added and sound:
                body = orjson.dumps(without_tokens(record.whole, self._added))
                headers = [h for h in headers if h[0].lower() != b"content-encoding"]
        elif 400 <= status < 500 and status != TOO_MANY:
            record.status = "model_error"
        if (cost := record.cost_usd()) is not None and status == 200:
            headers.append((b"X-Tutti-Cost-Usd", b"%.9f" % cost))
        if self.exchange.started:  # it was held with comments, so the head is already sent
            self.exchange.send(b"data: %b\n\n" % body.replace(b"\n", b" "))
            self.exchange.end()
        else:
            self.exchange.respond(status, headers, body)
        self._close(Reason(ReasonCode.ANSWERED, f"HTTP {status}"))

    def _wait_its_turn(self, endpoint: Endpoint) -> bool:
        """After 429: pause the endpoint for as long as it asks, and requeue the call."""
        pause = retry_after_s(self._head)
        call = self.call
        if call is None or self.record.retry >= MAX_TRIES:
            return False
        self.record.retry += 1  # of the first send it is 0
        endpoint.pause(time.monotonic() + (1.0 if pause is None else pause), "HTTP 429")
        self.state, self.record.held_s = CallState.HELD, None
        self.owner.endpoint_changed(endpoint)
        admitted = self.scheduler.requeue(call, time.monotonic())
        self.owner.send_admitted(self.pool, admitted)
        return True

    def _end_stream(self) -> None:
        record = self.record
        self.exchange.send(self._stream.rest())
        self._stream.read_usage(record.reported)
        record.status = "infra_error" if record.reported.failed else "ok"
        self.exchange.end()
        self._close(Reason(ReasonCode.ANSWERED, "answered"))

    def _progress(self) -> None:
        if (call := self.call) is not None:
            self.scheduler.progress(call, self.chunks, self.active_at)

    def estimate_usd(self) -> float:
        """Return a budget's estimate for a call of unknown cost: its estimated prompt, and a token
        for each event of a stream or byte of a whole answer; 0 if the price is unknown."""
        prices, call = self.record.prices, self.call
        if prices is None or call is None:
            return 0.0
        tokens = min(self.chunks, self.request.output_tokens)
        return prices.cost_usd(call.prompt_tokens, 0, tokens)

    def _passed(self) -> Headers:
        headers = end_to_end(self._head)
        headers.append((b"X-Tutti-Held-S", b"%.6f" % (self.record.held_s or 0.0)))
        return headers

    def _close(self, reason: Reason) -> None:
        self.state = CallState.OVER
        self.exchange.on_gone = self.exchange.on_writable = None
        self.record.latency_s = time.monotonic() - self.record.sent
        self.record.was_taken &= self._upstream is None or self._upstream.sent_at > 0
        if (endpoint := self.endpoint) is not None:
            self.record.weights = self.record.weights[0], endpoint.weights
        call, scheduler, now, admitted = self.call, self.scheduler, time.monotonic(), list[Call]()
        if call is not None:
            if call.engine is None:
                admitted = scheduler.withdraw(call, now, reason)
            else:
                usage = self.record.reported.usage if self.record.status == "ok" else None
                if usage is not None:
                    call.program.prompt_bytes = self.prompt_bytes
                    call.program.prompt_chain = self.chain
                admitted = scheduler.finish(call, usage, now)
        if scheduler is not self.pool.scheduler:
            admitted += self.pool.scheduler.tick(now)  # its cell has ended, so its room is free
        self.owner.ended(self)
        self.owner.send_admitted(self.pool, admitted)
