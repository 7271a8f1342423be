"""The gates of domain tasks, cheap ones first: one function and one line each."""

from tutti.tasks.synthesis.gating.blind import judge_blind
from tutti.tasks.synthesis.gating.contamination import judge_contamination
from tutti.tasks.synthesis.gating.described import judge_described
from tutti.tasks.synthesis.gating.duplicates import judge_duplicates
from tutti.tasks.synthesis.gating.gate import FunctionGate, Gate, each_task
from tutti.tasks.synthesis.gating.leak import leak_fault
from tutti.tasks.synthesis.gating.oracle import judge_oracle
from tutti.tasks.synthesis.gating.parses import parse_fault, record_fault
from tutti.tasks.synthesis.gating.replays import (
    judge_executes,
    judge_lasting,
    judge_policy,
    judge_replay,
    no_op_fault,
)
from tutti.tasks.synthesis.gating.suffices import source_fault

GATES: dict[str, Gate] = {
    name: FunctionGate(name, judge)
    for name, judge in {
        "parses": each_task(parse_fault),
        "records": each_task(record_fault),
        "leak": each_task(leak_fault),
        "contamination": judge_contamination,
        "executes": judge_executes,
        "replay": judge_replay,
        "no_op": each_task(no_op_fault),
        "lasting": judge_lasting,
        "suffices": each_task(source_fault),
        "described": judge_described,
        "policy": judge_policy,
        "oracle": judge_oracle,
        "blind": judge_blind,
        "duplicates": judge_duplicates,  # last: it remembers what passed
    }.items()
}
"""In their order. A task that one rejects is not shown to those after it."""
TOGETHER = ("blind", "duplicates")
"""Gates whose verdict on a task depends on the others that they are shown, and on their order."""
