"""The gates, cheap ones first: one file and one line each."""

from tutti.tasks.synthesis.gating.blind import Blind
from tutti.tasks.synthesis.gating.contamination import Contamination
from tutti.tasks.synthesis.gating.described import Described
from tutti.tasks.synthesis.gating.duplicates import Duplicates
from tutti.tasks.synthesis.gating.executes import Executes
from tutti.tasks.synthesis.gating.gate import Gate
from tutti.tasks.synthesis.gating.lasting import Lasting
from tutti.tasks.synthesis.gating.leak import Leak
from tutti.tasks.synthesis.gating.no_op import NoOp
from tutti.tasks.synthesis.gating.oracle import OracleGate
from tutti.tasks.synthesis.gating.parses import Parses
from tutti.tasks.synthesis.gating.policy import PolicyGate
from tutti.tasks.synthesis.gating.records import Records
from tutti.tasks.synthesis.gating.replay import ReplayGate
from tutti.tasks.synthesis.gating.suffices import Suffices

GATES: dict[str, Gate] = {
    gate.name: gate
    for gate in (
        Parses(),
        Records(),
        Leak(),
        Contamination(),
        Executes(),
        ReplayGate(),
        NoOp(),
        Lasting(),
        Suffices(),
        Described(),
        PolicyGate(),
        OracleGate(),
        Blind(),
        Duplicates(),  # last: it remembers what passed
    )
}
"""In the order in which they are asked. A task that one rejects is not shown to those after it."""
TOGETHER = ("blind", "duplicates")
"""Gates whose verdict on a task depends on the others that they are shown, and on their order."""
