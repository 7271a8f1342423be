"""Records a teacher's calls in batches as the gateway records the others.

In: answered rows of a provider's batch. Out: rows of `calls` and `messages`, with the role teacher,
of a program of their own: the gateway numbers the messages of the programs that it serves. The cost
is by the registry's prices without the provider's discount for batches, which they do not have.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tutti.storage import Catalog, commit, now, query, spans_of
from tutti.tasks.synthesis.teacher import BatchCall, TeacherPrices

ENDPOINT = "batch"
PARAMETERS = ("temperature", "max_tokens", "max_completion_tokens", "seed")
KNOWN_SQL = "select call_id from calls where call_id in (select unnest($ids))"
LAST_SQL = "select max(position) as last from messages where attempt_id = $program"


@dataclass(frozen=True)
class BatchRecorder:
    """Of one request's batches."""

    catalog: Catalog
    model: str
    """By its name in the registry."""
    program: str
    prices: TeacherPrices | None
    role: str = "teacher"

    def record(self, calls: Sequence[BatchCall]) -> None:
        """Write the calls that are not on record yet. Raises StoreError."""
        home = self.catalog.home
        ids = {"ids": [each.call_id for each in calls]}
        known = {row["call_id"] for row in query(KNOWN_SQL, home, ids)}
        last = query(LAST_SQL, home, {"program": self.program})[0]["last"]
        place = 0 if last is None else last + 1
        rows: dict[str, list[dict[str, Any]]] = {"calls": [], "messages": []}
        for call in calls:
            if call.call_id not in known:
                said = self._messages(call, place)
                rows["calls"].append(self._call(call, range(place, place + len(said) - 1)))
                rows["messages"] += said
                place += len(said)
        if rows["calls"]:
            commit(self.catalog, rows)

    def _messages(self, call: BatchCall, place: int) -> list[dict[str, Any]]:
        answer = {"role": "assistant", "content": call.answer.text, "call_id": call.call_id}
        said = [*call.body["messages"], answer]
        return [
            {"attempt_id": self.program, "position": position, **message}
            for position, message in enumerate(said, place)
        ]

    def _call(self, call: BatchCall, prompt: range) -> dict[str, Any]:
        answer = call.answer
        sent_at, ended_at = (_at(each) for each in call.times)
        cost = None
        if self.prices is not None and answer.tokens is not None:
            cost = self.prices.usd(answer.tokens.prompt, answer.tokens.completion)
        params = {name: call.body[name] for name in PARAMETERS if name in call.body}
        messages = json.dumps(call.body["messages"]).encode()
        return {
            "call_id": call.call_id,
            "attempt_id": self.program,
            "role": self.role,
            "model": self.model,
            "endpoint": ENDPOINT,
            "sent_at": sent_at,
            "ended_at": ended_at,
            "latency_s": max(0.0, (ended_at - sent_at).total_seconds()),
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
            "finish_reason": answer.finish,
            "status": "ok",
            "http_status": 200,
            "retry": 0,
            "cost_usd": cost,
            "params": json.dumps({**params, "model": call.body["model"]}),
            "prompt_hash": hashlib.sha256(messages).hexdigest()[:16],
            "prompt_spans": spans_of(prompt),
        }


def _at(seconds: float | None) -> datetime:
    """A provider's time; the present where it says none."""
    return now() if seconds is None else datetime.fromtimestamp(seconds, UTC)
