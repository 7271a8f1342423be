"""The interface of a scheduling policy: it receives every event and decides which calls to admit.

A policy is a pure state machine without a clock; the same object runs in the gateway and in the
simulator. It reads the ledger, which is up to date before each hook is called, and keeps its own
data in `note` fields. To add one, write a file with a class and a line in `POLICIES` of this
package.
"""

from collections.abc import Callable, Iterable

from tutti.tasks.serving.scheduling.ledger import Call, EngineMetrics, EngineState, Ledger, Program
from tutti.tasks.serving.scheduling.reasons import NO_ENGINE, Reason, ReasonCode

Admission = tuple[Call, EngineState]
Log = Callable[[str, Program, "Call | None", Reason], None]


def no_log(event: str, program: Program, call: Call | None, reason: Reason) -> None:
    """Discard an event."""


class Policy:
    """The interface; the default admits everything to the engine with the fewest calls."""

    name = "passthrough"
    tick_s: float | None = None
    """Seconds between `ticked`, for policies that act periodically."""
    ledger: Ledger
    log: Log = staticmethod(no_log)
    """Receives events that only the policy can know: `pause` and `resume`, with the reason."""

    def attach(self, ledger: Ledger, log: Log) -> None:
        """Attach the ledger. Called once, before any event."""
        self.ledger, self.log = ledger, log

    def arrived(self, call: Call, now: float) -> None:
        """A call arrived and waits (it is in `ledger.waiting` and in its program's calls)."""

    def withdrawn(self, call: Call, now: float) -> None:
        """A waiting call was cancelled."""

    def admitted(self, call: Call, now: float) -> None:
        """A call was sent to `call.engine`, also after a failover."""

    def first_token(self, call: Call, now: float) -> None:
        """An answer began."""

    def progressed(self, call: Call, now: float) -> None:
        """`call.produced` grew."""

    def estimated(self, call: Call, now: float) -> None:
        """A waiting call got a better estimate of its prompt tokens."""

    def returned(self, call: Call, now: float) -> None:
        """An engine refused a running call; `arrived` follows. By default the call is treated as
        failed."""
        self.finished(call, now)

    def finished(self, call: Call, now: float) -> None:
        """A call ended; `call.usage` is None if it failed or was cut off."""

    def gone(self, program: Program, now: float, reason: Reason) -> None:
        """A program was released or its lease ended; it has no calls."""

    def observed(self, engine: EngineState, sample: EngineMetrics, now: float) -> None:
        """An engine's metrics were sampled."""

    def changed(self, engine: EngineState, now: float) -> None:
        """An engine joined, left (it is no longer in the ledger), stopped accepting, restarted (its
        cache is empty and its capacity may differ), or has lost a running call to another."""

    def ticked(self, now: float) -> None:
        """`tick_s` passed, or `wake_at` was reached."""

    def wake_at(self, now: float) -> float | None:
        """When to call `ticked` even if nothing happens; None for never."""
        return None

    def admit(self, now: float) -> Iterable[Admission]:
        """Yield waiting calls to admit now, each with its engine. Called after every event. Each
        call is admitted before the next is requested, so the ledger always includes earlier
        admissions."""
        for call in list(self.ledger.waiting.values()):
            engine = least_loaded(self.ledger, call.program)
            if engine is None:
                return
            yield call, engine

    def booked_tokens(self, engine: EngineState) -> int:
        """KV tokens booked on an engine by this policy; by default, what running calls will hold at
        their end."""
        return sum(call.need_tokens for call in engine.running.values())

    def reason(self, call: Call) -> Reason:
        """Why a waiting call is held."""
        return Reason(ReasonCode.QUEUED, self.name) if self.ledger.open_engines() else NO_ENGINE


def least_loaded(ledger: Ledger, program: Program) -> EngineState | None:
    """The program's own engine if it takes calls, else the one with the fewest in flight."""
    if program.engine is not None and program.engine.open:
        return program.engine
    candidates = ledger.open_engines()
    return min(candidates, key=lambda engine: len(engine.running), default=None)
