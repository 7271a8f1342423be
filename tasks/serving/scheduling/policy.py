"""What a scheduling policy is: told of every event, asked whom to admit. Pure; no clock inside.

The same object runs in the gateway and in the simulator. A policy reads the ledger, which is up to
date before each hook is called, and keeps what it wants of its own in `note` fields. Adding one:
a file with a class, a line in `POLICIES` of this package.
"""

from collections.abc import Callable, Iterable

from tutti.tasks.serving.scheduling.ledger import Call, EngineMetrics, EngineState, Ledger, Program
from tutti.tasks.serving.scheduling.reasons import NO_ENGINE, Reason, ReasonCode

Admission = tuple[Call, EngineState]
Log = Callable[[str, Program, "Call | None", Reason], None]


def no_log(event: str, program: Program, call: Call | None, reason: Reason) -> None:
    """Keeps no events."""


class Policy:
    """The interface, and the rule that admits everything to the engine with the fewest calls."""

    name = "passthrough"
    tick_s: float | None = None
    """Seconds between `ticked`, for rules that act on a clock."""
    ledger: Ledger
    log: Log = staticmethod(no_log)
    """For what only the policy knows of: `pause` and `resume`, with the reason."""

    def attach(self, ledger: Ledger, log: Log) -> None:
        """Called once, before any event."""
        self.ledger, self.log = ledger, log

    def arrived(self, call: Call, now: float) -> None:
        """A call came and waits (it is in `ledger.waiting` and in its program's)."""

    def withdrawn(self, call: Call, now: float) -> None:
        """A waiting call gave up, or its client went away."""

    def admitted(self, call: Call, now: float) -> None:
        """A call was sent to `call.engine`; also one that failed over to another engine."""

    def first_token(self, call: Call, now: float) -> None:
        """An answer has begun."""

    def progressed(self, call: Call, now: float) -> None:
        """`call.produced` has grown."""

    def estimated(self, call: Call, now: float) -> None:
        """A waiting call's prompt is known better."""

    def returned(self, call: Call, now: float) -> None:
        """An engine turned a running call away; `arrived` follows. As if it had failed, unless a
        policy knows better."""
        self.finished(call, now)

    def finished(self, call: Call, now: float) -> None:
        """A call ended; `call.usage` is None when it failed or was cut."""

    def gone(self, program: Program, now: float, reason: Reason) -> None:
        """A program was released or its lease ended; it has no call any more."""

    def observed(self, engine: EngineState, sample: EngineMetrics, now: float) -> None:
        """The engine's own figures."""

    def changed(self, engine: EngineState, now: float) -> None:
        """An engine came, went (no longer in the ledger), stopped accepting, or was restarted
        (its cache is empty then, and its capacity may be another)."""

    def ticked(self, now: float) -> None:
        """`tick_s` have passed, or `wake_at` has come."""

    def wake_at(self, now: float) -> float | None:
        """When to be ticked though nothing happens; None for not at all."""
        return None

    def admit(self, now: float) -> Iterable[Admission]:
        """Waiting calls that go now, and where. Asked after every event; each is admitted before
        the next is asked for, so the ledger always says what was already given."""
        for call in list(self.ledger.waiting.values()):
            engine = least_loaded(self.ledger, call.program)
            if engine is None:
                return
            yield call, engine

    def booked_tokens(self, engine: EngineState) -> int:
        """KV tokens taken by this policy's account: what running calls will hold at their end."""
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
