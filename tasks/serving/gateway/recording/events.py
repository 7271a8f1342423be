"""Decisions as rows of `gateway_events`, with the booked tokens and the capacity at that moment."""

import logging
from collections.abc import Callable
from typing import Any

from tutti.storage import BufferedWriter
from tutti.storage import catalog as cat
from tutti.tasks.serving.gateway.calls.record import CallRecord
from tutti.tasks.serving.gateway.endpoints.endpoint import Endpoint
from tutti.tasks.serving.gateway.endpoints.pools import Pools, warning
from tutti.tasks.serving.scheduling import Call, Program, Reason, ReasonCode

log = logging.getLogger(__name__)
DECISION_EVENTS = frozenset(
    ("hold", "pause", "resume", "release", "expire", "reject", "disconnect")
)
MAX_REASON = 200


class EventLog:
    """Writes the events of one gateway."""

    def __init__(
        self, recorder: BufferedWriter, cell: Callable[[], str], count: Callable[[str], None]
    ) -> None:
        self._recorder, self._cell, self._count = recorder, cell, count
        self.pools: Pools | None = None
        self.all_events = False
        """Whether to record also the events that `calls` covers."""

    def note(self, event: str, program: Program, call: Call | None, reason: Reason) -> None:
        """Record a decision about a program or one of its calls."""
        self._count(f"event_{event}")
        if event not in DECISION_EVENTS and not self.all_events:
            return
        engine = program.engine
        row: dict[str, Any] = {"tokens": call.need_tokens if call else program.context_tokens}
        if engine is not None and engine.capacity_tokens is not None and self.pools is not None:
            pools = self.pools.by_name.values()
            pool = next((p for p in pools if engine.engine_id in p.endpoints), None)
            if pool is not None and engine is pool.endpoints[engine.engine_id].engine:
                row["booked"] = pool.scheduler.policy.booked_tokens(engine)
                row["capacity"] = engine.capacity_tokens
        self._add(program.program_id, event, reason, row)

    def trouble(self, reason: Reason) -> None:
        """Record a failure that belongs to no program: of an engine or of the policy."""
        self._add("", "reject", reason, {})

    def engine_trouble(self, endpoint: Endpoint, reason: str) -> None:
        """Record a failure of an engine."""
        self.trouble(Reason(ReasonCode.ENGINE_FAILED, f"{endpoint.name}: {reason}"))

    def lacking(self, endpoint: Endpoint) -> None:
        """Record an engine whose calls are scheduled by count, and warn the operator."""
        log.warning(text := warning(endpoint))
        self.trouble(Reason(ReasonCode.NO_METRICS, text))

    def unknown_cost(self, record: CallRecord) -> None:
        """Record the first call under a budget whose cost is unknown, and warn the operator."""
        why = "its price is unknown; budgets do not count it"
        if record.prices is not None:
            why = "its usage was not reported; budgets count an estimate"
        text = f"{record.endpoint}: the cost of a call of {record.model} is unknown: {why}"
        log.warning(text)
        self.trouble(Reason(ReasonCode.UNKNOWN_COST, text))

    def _add(self, program: str, event: str, reason: Reason, more: dict[str, Any]) -> None:
        row = {"at": cat.now(), "cell_id": self._cell(), "program_id": program}
        row |= {"event": event, "reason_code": reason.code, "reason": reason.text[:MAX_REASON]}
        self._recorder.add("gateway_events", row | more)
