"""The gates, cheap ones first: one file and one line each."""

from tutti.tasks.synthesis.gating.blind import Blind
from tutti.tasks.synthesis.gating.executes import Executes
from tutti.tasks.synthesis.gating.gate import Gate
from tutti.tasks.synthesis.gating.no_op import NoOp
from tutti.tasks.synthesis.gating.oracle import OracleGate
from tutti.tasks.synthesis.gating.policy import PolicyGate
from tutti.tasks.synthesis.gating.replay import ReplayGate

GATES: dict[str, Gate] = {
    gate.name: gate
    for gate in (
        Executes(),
        ReplayGate(),
        NoOp(),
        PolicyGate(),
        OracleGate(),
        Blind(),
    )
}
"""In the order in which they are asked. A task that one rejects is not shown to those after it."""
