"""The rows of a call: one in `calls`, its conversation in `messages`, and the usage it reports.

Usage and finish reason are read from every protocol: OpenAI's chat, completions, responses and
embeddings, Anthropic's messages; from complete answers and from events. If an engine sends usage
with every event, the last one is right, so later values win.
"""

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import orjson

from tutti.storage import PARTNERS, Cost, ProgramClock, ProgramTally
from tutti.storage import catalog as cat
from tutti.tasks.serving.gateway.calls.request import ROLE, CallRequest
from tutti.tasks.serving.gateway.calls.transcripts import Rows, Transcripts, began_before
from tutti.tasks.serving.gateway.endpoints.endpoint import Endpoint
from tutti.tasks.serving.gateway.protocols import read_answer, read_context, read_prompt
from tutti.tasks.serving.gateway.protocols.chat import Answer
from tutti.tasks.serving.registry.models import Prices
from tutti.tasks.serving.scheduling import Program, Usage
from tutti.tasks.serving.wire.exchange import LARGE_BYTES

MAX_TOKENS = 2**40
USAGE, USAGE_BYTES = b'"usage":', 2**14
BEGINNINGS = ("message_start", "response.created", "response.in_progress")
"""Events before the first token: what they count of the completion is a placeholder."""


class ReportedUsage:
    """Usage and finish reason that an answer has reported so far."""

    __slots__ = ("cached", "completion", "failed", "finish_reason", "prompt")

    def __init__(self) -> None:
        self.prompt: int | None = None
        self.completion: int | None = None
        self.cached: int | None = None
        self.finish_reason: str | None = None
        self.failed = False
        """Whether the answer reported an error in its body although its status was 200."""

    def read(self, data: bytes) -> Any:
        """Read an answer or an event and return it; None, without effect, if it is not a JSON
        object."""
        try:
            answer = orjson.loads(data)
        except orjson.JSONDecodeError:
            return None
        if not isinstance(answer, dict):
            return None
        self.take(answer)
        return answer

    def take(self, answer: Mapping[str, Any]) -> None:
        """Store the usage of a parsed answer or event."""
        self.failed = self.failed or bool(answer.get("error"))
        # Events of the responses API and of Anthropic's nest the object that has the usage.
        before, response = self.completion, answer.get("response")
        for inner in (response, answer.get("message"), answer):
            if inner and isinstance(inner, dict) and isinstance(usage := inner.get("usage"), dict):
                self._take_usage(usage)
        if answer.get("type") in BEGINNINGS:
            self.completion = before
        choices = answer.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            reason = choice.get("finish_reason") if isinstance(choice, dict) else None
            self.finish_reason = str(reason) if reason else self.finish_reason
        for inner in (answer, answer.get("delta"), response):
            if inner and isinstance(inner, dict):
                reason = inner.get("stop_reason") or inner.get("finish_reason") or _ended(inner)
                self.finish_reason = str(reason) if reason else self.finish_reason

    def _take_usage(self, usage: Mapping[str, Any]) -> None:
        prompt = _count(usage.get("prompt_tokens"))
        if prompt is None and (prompt := _count(usage.get("input_tokens"))) is not None:
            # Anthropic counts tokens read from or written to its cache apart from the input.
            read = _count(usage.get("cache_read_input_tokens"))
            made = _count(usage.get("cache_creation_input_tokens"))
            prompt += (read or 0) + (made or 0)
            self.cached = read if read is not None else self.cached
        self.prompt = prompt if prompt is not None else self.prompt
        for name in ("completion_tokens", "output_tokens"):
            if (value := _count(usage.get(name))) is not None:
                self.completion = value
        for name in ("prompt_tokens_details", "input_tokens_details"):
            if name in usage:  # the field is null if an engine found nothing
                details = usage[name]
                found = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
                self.cached = found or 0

    @property
    def usage(self) -> Usage | None:
        """Usage for the ledger; None if none was reported."""
        if self.prompt is None:
            return None
        return Usage(self.prompt, self.completion or 0, self.cached)


def _ended(response: Mapping[str, Any]) -> Any:
    if response.get("object") != "response":
        return None
    details = response.get("incomplete_details")
    status = response.get("status")
    if isinstance(details, Mapping) and details.get("reason"):
        return details["reason"]
    return status if status in ("completed", "incomplete", "failed", "cancelled") else None


def _count(value: Any) -> int | None:
    """Return a plausible number of tokens that fits a table's column, else None."""
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else None


def usage_of_large(answer: bytes) -> dict[str, Any]:
    """Return the usage of an answer that is too large to be parsed on the event loop, as an answer
    of its own; empty if it is small, or reports none."""
    if len(answer) <= LARGE_BYTES or (at := answer.rfind(USAGE)) < 0:
        return {}
    try:
        start = answer[at : at + USAGE_BYTES].removeprefix(USAGE).decode(errors="replace").lstrip()
        usage, _ = json.JSONDecoder().raw_decode(start)
    except ValueError:
        return {}
    return {"usage": usage} if isinstance(usage, dict) else {}


def usage_only(event: bytes) -> bool:
    """Whether an event holds usage and no choice."""
    data = event.strip().removeprefix(b"data:").strip()
    if b'"usage"' not in data:
        return False
    try:
        parsed = orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return isinstance(parsed, dict) and parsed.get("choices") == [] and bool(parsed.get("usage"))


PARAMETERS = ("temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop", "n")
GENERATING = frozenset(("chat/completions", "completions", "responses", "messages"))
"""Paths below /v1 whose calls begin a program; an embedding alone is no attempt at anything."""
OTHER_ROLES = ("expert", *PARTNERS)
"""Who else calls in a program; a client may name any role, and a program counts these."""
MANY_BYTES, MANY_PIECES = 64 * 1024, 32  # takes a third of a millisecond to convert


@dataclass(slots=True)
class CallRecord:
    """One call; filled in as it proceeds and converted to rows when it has ended."""

    request: CallRequest
    model: str = ""
    """The name that it is recorded by, the registry's if that has one; "": the request's."""
    served_name: str = ""
    """The model's name in the request that the endpoint got."""
    sent: float = field(default_factory=lambda: time.monotonic())
    """When the call arrived, in seconds of the monotonic clock."""
    held_s: float | None = None
    """Time until it was sent to its engine for the last time, with the tries before that failed;
    None while it is held."""
    ttft_s: float | None = None
    """Time since the call was sent by its client, hold time included."""
    latency_s: float = 0.0
    status: str = "infra_error"
    http_status: int | None = None
    retry: int = 0
    endpoint: str = ""
    was_taken: bool = False
    """Whether it was sent to its endpoint, and that answered with no error; also if the gateway
    gave it up then."""
    policy: str = ""
    concurrency: int | None = None
    prices: Prices | None = None
    reported: ReportedUsage = field(default_factory=ReportedUsage)
    whole: Any = None
    unparsed: bytes = b""
    """A large complete answer, whose end alone was parsed; the rest is when the rows are made."""
    answered: list[bytes] = field(default_factory=list)
    body_bytes: int = 0
    streamed: bool = False
    records_tokens: bool = False
    tally: ProgramTally | None = None
    """Of the program whose attempt the gateway writes; None for others."""
    weights: tuple[str, str] = ("", "")
    """The versions of the engine's weights at its start and at its end; empty if never changed."""

    def goes_to(self, endpoint: Endpoint) -> None:
        """Record that the call is being sent to `endpoint`."""
        self.endpoint = endpoint.name
        self.prices = endpoint.prices_of(self.request.model)
        self.served_name = endpoint.served_name(self.request.model)
        self.weights = endpoint.weights, ""
        self.http_status, self.was_taken = None, True  # not those of an endpoint tried before

    def read_whole(self, body: bytes, at_once: bool) -> bool:
        """Read a complete answer, of a large one only its usage unless `at_once`; return whether it
        is valid."""
        said = {} if at_once else usage_of_large(body)
        if said:
            self.reported.take(said)
            self.unparsed = body if self.request.kind in GENERATING else b""
        else:
            self.whole = said = self.reported.read(body)
        return said is not None and not self.reported.failed

    def cost_usd(self) -> float | None:
        """Return the call's cost by the usage reported so far; None if the price or the usage is
        unknown. A call that no endpoint took costs nothing."""
        prices, reported = self.prices, self.reported
        if not self.was_taken:
            return 0.0
        if prices is None:
            return None
        if self.lacks_usage:
            return 0.0 if prices.is_free else None
        return prices.cost_usd(reported.prompt or 0, reported.cached or 0, reported.completion or 0)

    @property
    def lacks_usage(self) -> bool:
        """Whether the endpoint that took the call has not reported its usage."""
        if not self.was_taken:
            return False
        reported, embeds = self.reported, self.request.kind == "embeddings"
        return reported.prompt is None or (reported.completion is None and not embeds)

    def spend(self, program: Program) -> None:
        """Add the call's usage to its program; that of judges, users and experts also by role, as
        ``user.calls``, because it is not the agent's own. Only reported tokens are added; a call
        without usage is counted separately."""
        spent = program.spent
        self.take_time(program.clock)
        reported, cost = self.reported, Cost.of([self.cost_usd()])
        amounts = {
            "calls": 1,
            "prompt_tokens": reported.prompt or 0,
            "cached_tokens": reported.cached or 0,
            "completion_tokens": reported.completion or 0,
            "unknown_usages": int(self.lacks_usage),
            "cost_usd": cost.known_usd,
            "unknown_costs": cost.unknown,
        }
        role = self.request.role
        if role in OTHER_ROLES:
            amounts |= {f"{role}.{unit}": amount for unit, amount in amounts.items()}
        for unit, amount in amounts.items():
            spent[unit] = spent.get(unit, 0) + amount

    def take_time(self, clock: ProgramClock, ended: float | None = None) -> None:
        """Add the call to its program's clock; `ended`: treat it as ended then."""
        ended = self.sent + self.latency_s if ended is None else ended
        held_s = ended - self.sent if self.held_s is None else self.held_s
        failed = self.status == "infra_error" and bool(self.latency_s)
        clock.take((self.sent, ended), held_s, failed, self.request.role)

    @property
    def attempt_id(self) -> str:
        """The attempt of its rows: its program, or one of the program's attempts."""
        return self.request.program if self.tally is None else self.tally.attempt_id

    @property
    def is_heavy(self) -> bool:
        """Whether converting it would block the event loop noticeably."""
        many = len(self.answered) > MANY_PIECES or self.body_bytes > MANY_BYTES
        heavy = bool(self.unparsed) or len(self.request.raw) > MANY_BYTES
        return heavy or (self.reads_answer and many)

    @property
    def n_bytes(self) -> int:
        """The approximate memory that it holds."""
        return len(self.request.raw) + self.body_bytes

    @property
    def prompt(self) -> list[dict[str, Any]] | None:
        """Its messages as chat messages, if it is a valid conversation."""
        return read_prompt(self.request.kind, self.request.body)

    @property
    def program_began_before(self) -> bool:
        """Whether its program may have messages in the store, if this is its first call here."""
        request = self.request
        return began_before(self.prompt or (), read_context(request.kind, request.body))

    @property
    def reads_answer(self) -> bool:
        return self.records_tokens or not self.request.keeps_messages

    def rows(self, transcripts: Transcripts) -> Rows:
        """The call's row, and its messages unless the client records them itself."""
        if self.unparsed:
            self.whole = self.reported.read(self.unparsed)
        row = self._row()
        assert row["attempt_id"], "its program was entered before"
        answer = read_answer(self.request.kind, self._objects() if self.reads_answer else ())
        if self.tally is not None:
            row["sweep_id"] = self.tally.cell.sweep_id  # its cell may not be in the catalog yet
        # The one step that may ask the store and is tried again then, so nothing is noted before.
        rows = self._with_messages(row, answer, transcripts)
        if self.records_tokens:
            rows["calls"] = [{**rows["calls"][0], **self._tokens(answer, transcripts)}]
        if self.tally is not None:
            self.tally.take(row)
            if row["role"] == ROLE:
                self.tally.take_answer(answer.message())
        return rows

    def _with_messages(
        self, row: dict[str, Any], answer: Answer, transcripts: Transcripts
    ) -> dict[str, list[Any]]:
        request, prompt = self.request, self.prompt
        if prompt is None:
            return {"calls": [row]}
        if request.keeps_messages:
            whole = [{"first": 0, "last": len(prompt) - 1}] if prompt else []
            row["prompt_spans"] = request.spans or whole
            return {"calls": [row]}
        kept = read_context(request.kind, request.body, answer)
        if request.is_auxiliary:
            return transcripts.auxiliary_rows(row, prompt, answer.message(), kept)
        rows = transcripts.rows(row, prompt, answer.message(), kept)
        if request.is_anonymous:
            transcripts.forget(request.program)
        return rows

    def _tokens(self, answer: Answer, transcripts: Transcripts) -> dict[str, Any]:
        request, prompt, spans = self.request, answer.prompt_token_ids, None
        if prompt is not None:
            said = answer.token_ids or ()
            spans = transcripts.tokens.observe(self.attempt_id, request.call_id, prompt, said)
            if request.is_anonymous:
                transcripts.tokens.forget(self.attempt_id)
        return {
            "token_ids": answer.token_ids,
            "logprobs": answer.logprobs,
            "prompt_token_ids": spans,
        }

    def _objects(self) -> Iterator[Any]:
        if not self.streamed:
            yield self.whole
            return
        whole = b"".join(self.answered).replace(b"\r\n", b"\n")
        for line in whole.split(b"\n"):
            if line.startswith(b"data:"):
                # [DONE], and events that are not JSON
                with contextlib.suppress(orjson.JSONDecodeError):
                    yield orjson.loads(line[5:])

    def _params(self) -> dict[str, Any]:
        params = {name: self.request.body[name] for name in PARAMETERS if name in self.request.body}
        if self.model and self.served_name not in ("", self.model):
            params["model"] = self.served_name
        return params

    def _row(self) -> dict[str, Any]:
        request, reported, body = self.request, self.reported, self.request.body
        held_s, ttft_s = self.held_s, self.ttft_s
        sent_at = cat.at(self.sent)  # read once per call: the wall clock may jump in between
        prompt = body.get("messages", body.get("prompt", body.get("input")))
        return {
            "call_id": request.call_id,
            "attempt_id": self.attempt_id,
            "cell_id": request.cell,
            "policy": self.policy,
            "concurrency": self.concurrency,
            "step": request.step,
            "role": request.role,
            "model": self.model or request.model or None,
            "endpoint": self.endpoint,
            "sent_at": sent_at,
            "admitted_at": None if held_s is None else sent_at + timedelta(0, held_s),
            "first_token_at": None if ttft_s is None else sent_at + timedelta(0, ttft_s),
            "ended_at": sent_at + timedelta(0, self.latency_s),
            "held_s": self.latency_s if held_s is None else held_s,
            "ttft_s": ttft_s,
            "latency_s": self.latency_s,
            "prompt_tokens": reported.prompt,
            "cached_tokens": reported.cached,
            "completion_tokens": reported.completion,
            "finish_reason": reported.finish_reason,
            "status": self.status,
            "http_status": self.http_status,
            "retry": self.retry,
            "cost_usd": self.cost_usd(),
            "weights_at_start": self.weights[0] or None,
            "weights_at_end": self.weights[1] or None,
            "params": orjson.dumps(self._params()).decode(),
            "prompt_hash": hashlib.sha256(orjson.dumps(prompt)).hexdigest()[:16],
        }
