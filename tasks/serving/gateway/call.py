"""One request on its way through the gateway, and the row it leaves in `calls`."""

import hashlib
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from storage import catalog as cat
from storage.batch import MakeRows
from storage.conversation import spans_of
from tasks.serving.gateway.transcripts import Rows, Transcripts, read_answer
from tasks.serving.registry import Prices

PARAMETERS = ("temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop", "n")


@dataclass
class Call:
    """One request; filled in as it goes."""

    call_id: str
    program: str
    anonymous: bool
    """Nobody named the program: the call is a program of its own, over when it ends."""
    cell: str
    step: int
    role: str
    body: dict[str, Any]
    sent_at: datetime = field(default_factory=cat.now)
    sent: float = field(default_factory=time.monotonic)
    admitted_at: datetime | None = None
    held_s: float = 0.0
    first_token_at: datetime | None = None
    ttft_s: float | None = None
    """Since the call was sent; time held is part of it."""
    status: str = "infra_error"
    http_status: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None
    answered: list[bytes] = field(default_factory=list)
    """The answer's JSON, or its events', as they came; read when the call is recorded."""
    records_tokens: bool = False
    keeps_messages: bool = False
    """The client records the conversation itself, in the order of its prompts."""

    def note_first_token(self) -> None:
        """The first event of a stream has come."""
        if self.ttft_s is None:
            self.first_token_at, self.ttft_s = cat.now(), time.monotonic() - self.sent

    def note_answer(self, data: bytes) -> None:
        """Take usage and finish reason from an answer or an event; what makes no sense is left.

        Engines that send usage with every event are right in the last one, so later ones win.
        """
        try:
            answer = orjson.loads(data)
        except orjson.JSONDecodeError:
            return
        if not isinstance(answer, dict):
            return
        usage = _mapping(answer.get("usage"))
        if usage:
            self.prompt_tokens = _count(usage.get("prompt_tokens"))
            self.completion_tokens = _count(usage.get("completion_tokens"))
            details = _mapping(usage.get("prompt_tokens_details"))
            self.cached_tokens = _count(details.get("cached_tokens")) or 0
        choices = answer.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            reason = _mapping(choice).get("finish_reason")
            self.finish_reason = str(reason) if reason else self.finish_reason

    def cost_usd(self, prices: Prices) -> float:
        """What the call cost, by its usage so far."""
        return prices.cost_usd(
            self.prompt_tokens or 0, self.cached_tokens or 0, self.completion_tokens or 0
        )

    def record(
        self, endpoint: str, prices: Prices, load: dict[str, Any], transcripts: Transcripts
    ) -> MakeRows:
        """What makes the call's rows, as of now; prompts are hashed and compared where it runs."""
        row = self._row(endpoint, prices) | load

        def make_rows() -> Rows:
            asked = self.body.get("messages", self.body.get("prompt"))
            row["params"] = json.dumps({k: self.body[k] for k in PARAMETERS if k in self.body})
            row["prompt_hash"] = hashlib.sha256(orjson.dumps(asked)).hexdigest()[:16]
            if self.records_tokens:
                answer = read_answer(self.answered)
                row["token_ids"], row["logprobs"] = answer.token_ids, answer.logprobs
            prompt = self.body.get("messages")
            if not isinstance(prompt, list) or not all(isinstance(m, Mapping) for m in prompt):
                return {"calls": [row]}  # no chat, or none that an engine would answer
            if self.keeps_messages:
                return {"calls": [row | {"prompt_spans": spans_of(range(len(prompt)))}]}
            return transcripts.rows(row, prompt, read_answer(self.answered).message())

        return make_rows

    def _row(self, endpoint: str, prices: Prices) -> dict[str, Any]:
        model = self.body.get("model")
        return {
            "call_id": self.call_id,
            "attempt_id": self.program,
            "cell_id": self.cell,
            "step": self.step,
            "role": self.role,
            "model": None if model is None else str(model),
            "endpoint": endpoint,
            "sent_at": self.sent_at,
            "admitted_at": self.admitted_at,
            "first_token_at": self.first_token_at,
            "ended_at": cat.now(),
            "held_s": self.held_s,
            "ttft_s": self.ttft_s,
            "latency_s": time.monotonic() - self.sent,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "completion_tokens": self.completion_tokens,
            "finish_reason": self.finish_reason,
            "status": self.status,
            "http_status": self.http_status,
            "retry": 0,
            "cost_usd": self.cost_usd(prices),
        }


def new_call(
    headers: Mapping[str, str], path_program: str | None, body: dict[str, Any], cell: str
) -> Call:
    """The call that a request makes; `program_id` is taken out of `body`, which engines refuse.

    Raises ValueError for a header that makes no sense.
    """
    call_id = headers.get("X-Call-Id") or uuid.uuid4().hex
    in_body = body.pop("program_id", None)
    named = path_program or headers.get("X-Program-Id") or in_body or body.get("job_id")
    step = headers.get("X-Tutti-Step", "0")
    if not step.isdecimal():
        raise ValueError(f"X-Tutti-Step must be a whole number, not {step!r}")
    return Call(
        call_id=call_id,
        program=str(named or f"anonymous-{call_id}"),
        anonymous=not named,
        cell=headers.get("X-Tutti-Cell", cell),
        step=int(step),
        role=headers.get("X-Tutti-Role", "orchestrator"),
        keeps_messages=headers.get("X-Tutti-Messages") == "kept",
        body=body,
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
