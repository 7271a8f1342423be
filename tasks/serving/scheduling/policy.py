"""The interface of a scheduling policy: it receives every event and decides which calls to admit.

A policy is a pure state machine without a clock; the same object runs in the gateway and in the
simulator. It reads the ledger, which is up to date before each hook is called, and keeps its own
data in `note` fields. To add one, write a file with a class and a line in `POLICIES` of this
package. `RankedCalls`, `running_tokens` and `roomiest` are for policies that queue calls by rank
and book what running calls will hold at their end.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator

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

    def returned(self, call: Call, now: float) -> None:
        """An engine refused a running call; `arrived` follows. By default the call counts as
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
        """Return when to call `ticked` even if nothing happens; None for never."""
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
        """Return KV tokens booked on an engine by this policy; by default, what running calls will
        hold at their end."""
        return sum(call.need_tokens for call in engine.running.values())

    def reason(self, call: Call) -> Reason:
        return Reason(ReasonCode.QUEUED, self.name) if self.ledger.open_engines() else NO_ENGINE


def least_loaded(ledger: Ledger, program: Program) -> EngineState | None:
    """Return the program's own engine if it takes calls, else the one with the fewest in flight."""
    if program.engine is not None and program.engine.open:
        return program.engine
    candidates = ledger.open_engines()
    return min(candidates, key=lambda engine: len(engine.running), default=None)


def running_tokens(engine: EngineState) -> int:
    """Return KV tokens, in whole blocks, that the running calls will hold at their end. Summed from
    the ledger each time: there are a few hundred calls at most, and no counter can drift."""
    return sum(engine.blocks(call.need_tokens) for call in engine.running.values())


def roomiest(
    call: Call, engines: Iterable[EngineState], free: Callable[[EngineState], float]
) -> EngineState | None:
    """Return the program's own engine if the call fits there, else the one with the most room that
    fits it."""
    rooms = {engine: free(engine) for engine in engines}
    fitting = [e for e, room in rooms.items() if e.blocks(call.need_tokens) <= room]
    if call.program.engine in fitting:
        return call.program.engine
    return max(fitting, key=lambda engine: rooms[engine], default=None)


Rank = tuple[float, ...]
"""Sort key of calls, smallest first; all ranks of one queue have the same length."""


class RankedCalls:
    """Calls sorted by rank; equal ranks keep their order of insertion."""

    def __init__(self) -> None:
        self._rows: list[tuple[Rank, int, Call]] = []
        self._keys: dict[str, tuple[Rank, int]] = {}
        self._count = 0

    def put(self, call: Call, rank: Rank) -> None:
        """Add a call, or change its rank; it keeps its order among equals."""
        known = self._keys.get(call.call_id)
        if known is None:
            self._count += 1
            turn = self._count
        else:
            turn = known[1]
            self.drop(call)
        self._keys[call.call_id] = rank, turn
        # turn numbers are unique, so calls are never compared
        insort(self._rows, (rank, turn, call))

    def drop(self, call: Call) -> bool:
        """Remove a call; returns False if it was not in the queue."""
        key = self._keys.pop(call.call_id, None)
        if key is None:
            return False
        del self._rows[bisect_left(self._rows, key)]
        return True

    def first(self) -> Call | None:
        return self._rows[0][2] if self._rows else None

    def rank(self, call: Call) -> Rank:
        """The rank of a call in the queue."""
        return self._keys[call.call_id][0]

    def __iter__(self) -> Iterator[Call]:
        return (call for _, _, call in self._rows)

    def __contains__(self, call: Call) -> bool:
        return call.call_id in self._keys

    def __len__(self) -> int:
        return len(self._rows)
