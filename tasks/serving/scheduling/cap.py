"""`cap`: at most `limit` programs at a time over all engines, first come first served.

An admitted program keeps its place between calls, so its prefix stays in the engine's cache, until
it is released or its lease ends. This is a baseline that papers omit. With the best limit,
determined by a sweep, it is the oracle with which `adaptive` is compared.
"""

from collections import OrderedDict
from collections.abc import Iterable

from tutti.tasks.serving.scheduling.ledger import Call, Program
from tutti.tasks.serving.scheduling.policy import Admission, Policy, least_loaded
from tutti.tasks.serving.scheduling.reasons import Reason, ReasonCode

DEFAULT_CAP = 8


class CapPolicy(Policy):
    """Admits at most `limit` programs at a time, first come, first served."""

    name = "cap"

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"cap: the limit must be at least 1, not {limit}")
        self.limit = limit
        self.inside: set[str] = set()
        self._ready: OrderedDict[str, Call] = OrderedDict()
        self._queue: OrderedDict[str, Program] = OrderedDict()

    def arrived(self, call: Call, now: float) -> None:
        """Make the call ready if its program has a place; otherwise queue the program."""
        if call.program.program_id in self.inside:
            self._ready[call.call_id] = call
        else:
            self._queue.setdefault(call.program.program_id, call.program)

    def withdrawn(self, call: Call, now: float) -> None:
        """Remove the call: a program without waiting calls loses its turn, and one that never made
        a call loses its place."""
        self._ready.pop(call.call_id, None)
        program = call.program
        if not program.waiting:
            self._queue.pop(program.program_id, None)
            if not program.calls_done and not program.running:
                self.inside.discard(program.program_id)

    def gone(self, program: Program, now: float, reason: Reason) -> None:
        self.inside.discard(program.program_id)
        self._queue.pop(program.program_id, None)

    def admit(self, now: float) -> Iterable[Admission]:
        """Give free places to the longest waiting programs, then admit ready calls."""
        while self._queue and len(self.inside) < self.limit:
            name, program = self._queue.popitem(last=False)
            self.inside.add(name)
            self._ready |= program.waiting
        for call_id, call in list(self._ready.items()):
            engine = least_loaded(self.ledger, call.program)
            if engine is None:
                return
            del self._ready[call_id]
            yield call, engine

    def reason(self, call: Call) -> Reason:
        """Return the number of occupied places and of waiting programs."""
        text = f"cap: {len(self.inside)} of {self.limit} places taken, {len(self._queue)} wait"
        return Reason(ReasonCode.NO_PLACE, text)
