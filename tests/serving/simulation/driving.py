"""Helpers of the simulator's tests: an engine driven step by step, and a simulated run as a
recording."""

from collections.abc import Iterable
from math import inf
from typing import Any

from tests.serving.simulation.workloads import Workload
from tutti.tasks.serving.simulation.engine import EngineModel, SimEngine, SimRequest
from tutti.tasks.serving.simulation.recording import RecordedCall, Recording
from tutti.tasks.serving.simulation.simulate import Simulation
from tutti.tasks.serving.simulation.workload import HOP_S, parse_policy

TINY = EngineModel(
    "tiny",
    kv_tokens=4 * 9,  # eight blocks beside the null block
    block_tokens=4,
    max_num_seqs=8,
    max_batched_tokens=64,
    iteration_s=1.0,
    prefill_token_s=0.1,
    decode_s=0.01,
)


def drive(
    engine: SimEngine, arrivals: Iterable[tuple[float, SimRequest]]
) -> tuple[dict[SimRequest, float], dict[SimRequest, float]]:
    """Run to the end and return the times of each request's first token and of its end."""
    waiting = sorted(arrivals, key=lambda arrival: arrival[0])
    started: dict[SimRequest, float] = {}
    ended: dict[SimRequest, float] = {}
    while waiting or engine.next_at != inf:
        if waiting and waiting[0][0] < engine.next_at:
            at, request = waiting.pop(0)
            engine.submit(request, at)
            continue
        at = engine.next_at
        first, last = engine.boundary()
        started |= dict.fromkeys(first, at)
        assert not ended.keys() & set(last), "a request ended twice"
        ended |= dict.fromkeys(last, at)
    return started, ended


class Recorder(Simulation):
    """Simulation that records what a gateway would have recorded."""

    calls: list[RecordedCall]

    def _end(self, request: SimRequest) -> None:
        call: Any = request.call
        session = self.by_call[call.call_id]
        held = call.admitted - session.sent
        ended = self.now + self.hop_s
        sizes = (request.prompt, request.cached, request.output, call.engine.engine_id)
        row = RecordedCall(session.plan.name, session.sent, ended, held, *sizes)
        self.calls.append(row)
        super()._end(request)


def recorded(
    workload: Workload,
    sessions: int,
    engine: EngineModel,
    policy: str = "passthrough",
    count: int = 1,
    hop_s: float = HOP_S,
) -> Recording:
    settings = workload.settings(hop_s=hop_s)
    run = Recorder(workload.plans(0), [engine] * count, parse_policy(policy), settings)
    run.calls = []
    run.go(sessions)
    return Recording(
        cell_id="cell:sim",
        policy=policy,
        sessions=sessions,
        calls=tuple(sorted(run.calls, key=lambda call: call.sent_s)),
        engines=count,
        kv_tokens=engine.kv_tokens,
        max_num_seqs=engine.max_num_seqs,
        max_batched_tokens=engine.max_batched_tokens,
        streams=workload.streams,
    )
