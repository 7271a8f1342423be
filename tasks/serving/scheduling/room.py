"""Free KV tokens on engines, for policies that book what running calls will hold at their end."""

from collections.abc import Callable, Iterable

from tutti.tasks.serving.scheduling.ledger import Call, EngineState


def running_tokens(engine: EngineState) -> int:
    """KV tokens, in whole blocks, that the running calls will hold at their end.

    Summed from the ledger each time: there are a few hundred calls at most, and no counter can
    drift.
    """
    return sum(engine.blocks(call.need_tokens) for call in engine.running.values())


def roomiest(
    call: Call, engines: Iterable[EngineState], free: Callable[[EngineState], float]
) -> EngineState | None:
    """The program's own engine if the call fits there, else the one with the most room that fits
    it."""
    rooms = {engine: free(engine) for engine in engines}
    fitting = [e for e, room in rooms.items() if e.blocks(call.need_tokens) <= room]
    if call.program.engine in fitting:
        return call.program.engine
    return max(fitting, key=lambda engine: rooms[engine], default=None)
