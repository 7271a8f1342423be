"""The row that a call leaves in `calls`, and its conversation in `messages`."""

import contextlib
import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import orjson

from tutti.storage import catalog as cat
from tutti.storage import spans_of
from tutti.tasks.serving.gateway.calls.request import CallRequest
from tutti.tasks.serving.gateway.recording.transcripts import Rows, Transcripts, read_answer
from tutti.tasks.serving.gateway.recording.usage import ReportedUsage
from tutti.tasks.serving.registry import Prices

PARAMETERS = ("temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop", "n")
MANY_BYTES, MANY_PIECES = 64 * 1024, 32  # a third of a millisecond to make rows of


@dataclass(slots=True)
class CallRecord:
    """One call; filled in as it goes, made into rows when it has ended."""

    request: CallRequest
    sent: float = field(default_factory=time.monotonic)
    """When the call came, in seconds of the monotonic clock."""
    held_s: float | None = None
    """Until it was let in; None if it never was."""
    ttft_s: float | None = None
    """Since the call was sent; time held is part of it."""
    latency_s: float = 0.0
    status: str = "infra_error"
    http_status: int | None = None
    retry: int = 0
    """Other engines, or the same again, tried before this answer."""
    endpoint: str = ""
    policy: str = ""
    concurrency: int | None = None
    prices: Prices | None = None
    reported: ReportedUsage = field(default_factory=ReportedUsage)
    whole: Any = None
    """What the answer says in JSON, if it came whole."""
    answered: list[bytes] = field(default_factory=list)
    """A stream as it came; read when the rows are made."""
    streamed: bool = False
    records_tokens: bool = False

    def note_first_token(self) -> None:
        """The first event of a stream has come."""
        self.ttft_s = time.monotonic() - self.sent

    def end(self) -> None:
        """The call is over, as of now."""
        self.latency_s = time.monotonic() - self.sent

    def cost_usd(self) -> float | None:
        """What the call cost, by its usage so far; None where nobody knows the price."""
        reported = self.reported
        if self.prices is None:
            return None
        return self.prices.cost_usd(
            reported.prompt or 0, reported.cached or 0, reported.completion or 0
        )

    def spend(self, spent: dict[str, float]) -> None:
        """Add the call to its program's account."""
        reported = self.reported
        amounts = {
            "calls": 1,
            "prompt_tokens": reported.prompt or 0,
            "cached_tokens": reported.cached or 0,
            "completion_tokens": reported.completion or 0,
            "held_s": self.held_s or 0.0,
            "cost_usd": self.cost_usd() or 0.0,
            "unpriced": int(self.prices is None),
        }
        for unit, amount in amounts.items():
            spent[unit] = spent.get(unit, 0) + amount

    @property
    def is_heavy(self) -> bool:
        """Whether making its rows would hold up an event loop."""
        reads = self.reads_answer and len(self.answered) > MANY_PIECES
        return reads or len(self.request.raw) > MANY_BYTES

    @property
    def prompt(self) -> list[dict[str, Any]] | None:
        """Its messages, if it is a chat that an engine would answer."""
        messages = self.request.body.get("messages")
        if not isinstance(messages, list):
            return None
        return messages if set(map(type, messages)) <= {dict} else None

    @property
    def reads_answer(self) -> bool:
        """Whether its rows hold what was answered."""
        return self.records_tokens or not self.request.keeps_messages

    def rows(self, transcripts: Transcripts) -> Rows:
        """The call's row, and its messages where the client does not record them itself."""
        request, prompt, row = self.request, self.prompt, self._row()
        answer = read_answer(self._objects() if self.reads_answer else ())
        if self.records_tokens:
            row["token_ids"], row["logprobs"] = answer.token_ids, answer.logprobs
        if prompt is None:
            return {"calls": [row]}
        if request.keeps_messages:
            row["prompt_spans"] = request.spans or spans_of(range(len(prompt)))
            return {"calls": [row]}
        rows = transcripts.rows(row, prompt, answer.message())
        if request.is_anonymous:
            transcripts.forget(request.program)
        return rows

    def _objects(self) -> Iterator[Any]:
        if not self.streamed:
            yield self.whole
            return
        whole = b"".join(self.answered).replace(b"\r\n", b"\n")
        for line in whole.split(b"\n"):
            if line.startswith(b"data:"):
                with contextlib.suppress(orjson.JSONDecodeError):  # [DONE], and what is none
                    yield orjson.loads(line[5:])

    def _row(self) -> dict[str, Any]:
        request, reported, body = self.request, self.reported, self.request.body
        held_s, ttft_s = self.held_s, self.ttft_s
        sent_at = cat.at(self.sent)  # once a call: the wall clock may jump in between
        prompt = body.get("messages", body.get("prompt", body.get("input")))
        return {
            "call_id": request.call_id,
            "attempt_id": request.program,
            "cell_id": request.cell,
            "policy": self.policy,
            "concurrency": self.concurrency,
            "step": request.step,
            "role": request.role,
            "model": request.model or None,
            "endpoint": self.endpoint,
            "sent_at": sent_at,
            "admitted_at": None if held_s is None else sent_at + timedelta(seconds=held_s),
            "first_token_at": None if ttft_s is None else sent_at + timedelta(seconds=ttft_s),
            "ended_at": sent_at + timedelta(seconds=self.latency_s),
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
            "params": orjson.dumps({k: body[k] for k in PARAMETERS if k in body}).decode(),
            "prompt_hash": hashlib.sha256(orjson.dumps(prompt)).hexdigest()[:16],
        }
