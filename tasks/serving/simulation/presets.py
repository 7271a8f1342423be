"""Engines and workloads whose constants were fitted to real runs of vLLM on two CPU cores.

The docstrings give the measured figures; tests check the simulator against them. What was not
recorded of a run (such as the lengths of tool results) was chosen to be plausible.
"""

from collections.abc import Mapping

from tutti.tasks.serving.simulation.engine_model import EngineModel
from tutti.tasks.serving.simulation.workload import (
    Workload,
    constant,
    exponential,
    lognormal,
    uniform,
)

SMALL = EngineModel(
    "small", kv_tokens=32_768, max_num_seqs=64, iteration_s=3.12e-3, prefill_token_s=1.83e-5,
    decode_s=3.27e-5, context_token_s=7.55e-8, request_s=8.35e-4,
)  # fmt: skip
SMALL_WORK = Workload(
    96, constant(10), constant(400), constant(176), constant(24), uniform(0.02, 0.2),
    streams=False,
)  # fmt: skip
"""steps/min (hit), 4-layer model, two cores of a Xeon with AMX: at cap 12 3,004 (.83), 14: 3,416,
16: 3,594 (.83), 20: 2,600 (.62); direct with 8 programs 2,361, 16: 3,626 (.83), 48: 1,888 (.17)."""

MID = EngineModel(
    "mid", kv_tokens=10_240, max_num_seqs=32, iteration_s=0.0193, prefill_token_s=7.59e-4,
    decode_s=2.01e-3, request_s=0.0164,
)  # fmt: skip
MID_WORK = Workload(
    20, constant(6), constant(400), constant(276), constant(24), exponential(2.0),
    streams=False,
)  # fmt: skip
"""38 M model, in the same form: 20 programs direct 58 to 62 (.05), cap 6 95 (.70), cap 8 104
(.61)."""

POCKET = EngineModel(
    "pocket", kv_tokens=1_024, max_num_seqs=32, iteration_s=3.37e-3, prefill_token_s=6.3e-6,
    decode_s=1.36e-3, request_s=3.67e-3,
)  # fmt: skip
POCKET_WORK = Workload(
    96, uniform(1.5, 3.6), uniform(26, 42), uniform(20, 150), uniform(4, 17),
    lognormal(0.043, 0.9), shared_tokens=40,
)  # fmt: skip
"""4 M model, the demo: passthrough at 2, 8, 16 sessions 1,221 (.54), 2,207 (.36), 3,138 (.21); cap
6: 1,198, 1,812, 1,995. Lengths and pauses are those of recorded demos. Client, tools and engine
share two cores there, which is not modelled: the simulation is 20 % off at 16 sessions."""

PRESETS: Mapping[str, tuple[EngineModel, Workload]] = {
    "small": (SMALL, SMALL_WORK),
    "mid": (MID, MID_WORK),
    "pocket": (POCKET, POCKET_WORK),
}
