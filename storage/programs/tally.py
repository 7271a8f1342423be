"""The usage of a program's calls, its waiting time, and the resulting row of `attempts`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tutti.storage.base.lineage import artifact_id
from tutti.storage.base.outcomes import Cost, ErrorType, http_error

PARTNERS = ("judge", "user")
"""Roles of calls in the place of a partner: an agent does not work meanwhile."""
SPANS_KEPT = 256  # programs may run for days, and waits come in the order in which they end


class WaitedTime:
    """The union of waits; one that overlaps none of the last `SPANS_KEPT` counts in full."""

    __slots__ = ("_spans", "seconds")

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []  # rising and apart
        self.seconds = 0.0

    def add(self, start: float, end: float) -> float:
        """Add a wait; return the seconds of it that no wait before covers."""
        if end <= start:
            return 0.0
        before, later = self.seconds, list[tuple[float, float]]()
        while self._spans and self._spans[-1][1] >= start:
            span = self._spans.pop()
            if span[0] > end:
                later.append(span)
            else:
                start, end = min(start, span[0]), max(end, span[1])
                self.seconds -= span[1] - span[0]
        self._spans += [(start, end), *reversed(later)]
        del self._spans[:-SPANS_KEPT]
        self.seconds += end - start
        return self.seconds - before


class ProgramClock:
    """The waits of a program, from its calls as a gateway sees them.

    It is the agents' working clock, measured from outside: a call waits until it is sent for the
    last time, the whole time of a failed call counts as waiting, and after it the program waits
    until its next call. Calls of `PARTNERS` are the partner's time.
    """

    __slots__ = ("_away", "_failed_at", "failing_since", "held_s", "partner_s")

    def __init__(self) -> None:
        self._away = WaitedTime()
        self._failed_at: float | None = None
        self.held_s = 0.0
        self.partner_s = 0.0
        self.failing_since: float | None = None
        """When the first call that failed after the last answer was sent; None: none did."""

    def take(self, times: tuple[float, float], held_s: float, failed: bool, role: str) -> None:
        """Add an ended call; `times` are when it was sent and ended."""
        sent, ended = times
        if self._failed_at is not None:
            self.held_s += self._away.add(self._failed_at, sent)
        if role in PARTNERS:
            self.partner_s += self._away.add(sent, ended)
        else:
            self.held_s += self._away.add(sent, ended if failed else sent + held_s)
        self._failed_at = ended if failed else None
        self.failing_since = (self.failing_since or sent) if failed else None


GATEWAY = "gateway"
"""`attempts.source`."""
BENCHMARK = "programs"
"""`attempts.benchmark` of programs, which are of none."""
AGENT = "orchestrator"
WORKER_LOST = "worker_lost"
CUT_OFF = frozenset(("length", "max_tokens", "max_output_tokens", "incomplete"))
"""Finish reasons of an answer that a limit of tokens ended, in all protocols."""


@dataclass(frozen=True)
class ProgramCell:
    """The cell of a gateway's programs: their first call's model, under a policy."""

    name: str
    """The gateway's name: its sweep's."""
    model: str
    policy: str

    @property
    def sweep_id(self) -> str:
        """The id of the sweep of all gateways of that name."""
        return sweep_of_gateway(self.name)

    @property
    def cell_id(self) -> str:
        """Its id, the same after every restart."""
        point = {"gateway": self.name, "model": self.model, "policy": self.policy}
        return artifact_id("cell", point)


def sweep_of_gateway(name: str) -> str:
    """The id of a gateway's sweep."""
    return artifact_id("sweep", {"gateway": name})


@dataclass
class ProgramTally:
    """The usage of a program's calls so far, and the end of the last one."""

    attempt_id: str
    cell: ProgramCell
    engine_id: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    steps: int = 0
    tool_calls: int = 0
    clock: ProgramClock = field(default_factory=ProgramClock)
    tokens: dict[str, int] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    """Of all roles."""
    last: Mapping[str, Any] = field(default_factory=dict)
    """The agent's last call that ended, in columns of `calls`."""
    answer: str | None = None

    def take(self, call: Mapping[str, Any]) -> None:
        """Add an ended call, in columns of `calls`; calls of roles other than the agent count only
        as cost and time."""
        self.cost.add(call["cost_usd"])
        self.started_at = min(self.started_at or call["sent_at"], call["sent_at"])
        self.ended_at = max(self.ended_at or call["ended_at"], call["ended_at"])
        times = call["sent_at"].timestamp(), call["ended_at"].timestamp()
        failed = call["status"] == "infra_error"
        self.clock.take(times, call["held_s"] or 0.0, failed, call["role"])
        if call["role"] != AGENT:
            return
        self.engine_id = self.engine_id or call["endpoint"] or None
        self.steps += 1
        for name in ("prompt_tokens", "cached_tokens", "completion_tokens"):
            if (count := call[name]) is not None:
                self.tokens[name] = self.tokens.get(name, 0) + count
        self.last = call

    def take_answer(self, message: Mapping[str, Any] | None) -> None:
        """Add an answer of the agent's model, as a chat message."""
        if message is None:
            return
        self.tool_calls += len(message.get("tool_calls") or ())
        content = message.get("content")
        self.answer = content if isinstance(content, str) and content else self.answer

    def outcome(self) -> dict[str, Any]:
        """Return status and error, by its last call."""
        status, http = self.last.get("status", "cancelled"), self.last.get("http_status")
        if status == "ok":
            cut = self.last.get("finish_reason") in CUT_OFF
            return {"status": "limit" if cut else "ok"}
        if status == "cancelled":
            return {"status": status}
        if http is None:
            return {"status": status, "error_type": str(ErrorType.CONNECTION)}
        kind = ErrorType.INVALID_REPLY if http == 200 else http_error(http)
        return {"status": status, "error_type": str(kind)}

    def row(self, stop_reason: str, run_id: str) -> dict[str, Any]:
        """Its row of `attempts`; one whose gateway was killed is void, whatever its calls."""
        outcome = self.outcome()
        if stop_reason == WORKER_LOST:
            outcome = {"status": "cancelled", "error_type": str(ErrorType.WORKER_LOST)}
        seconds = None
        if self.started_at is not None and self.ended_at is not None:
            waited_s = self.clock.held_s + self.clock.partner_s
            seconds = (self.ended_at - self.started_at).total_seconds() - waited_s
        return {
            "run_id": run_id,
            "sweep_id": self.cell.sweep_id,
            "cell_id": self.cell.cell_id,
            "sample_id": sample_of(self.cell.cell_id, self.attempt_id),
            "attempt_id": self.attempt_id,
            "benchmark": BENCHMARK,
            "task_id": self.attempt_id,
            "trial": 0,
            "attempt": 1,
            "model": self.cell.model,
            "engine_id": self.engine_id,
            "policy": self.cell.policy,
            "repeat": 0,
            "stop_reason": stop_reason,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "working_s": seconds,
            "held_s": self.clock.held_s,
            "steps": self.steps,
            "calls": self.steps,
            "tool_calls": self.tool_calls,
            "cost_usd": self.cost.usd,
            "answer": self.answer,
            "source": GATEWAY,
            **self.tokens,
            **outcome,
        }


def sample_of(cell_id: str, attempt_id: str) -> str:
    """Return the sample of a program's only attempt."""
    return artifact_id("sample", [cell_id, attempt_id])
