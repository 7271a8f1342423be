"""The gates, cheap ones first: one file and one line each."""

from tutti.tasks.synthesis.gating.contamination import Contamination
from tutti.tasks.synthesis.gating.described import Described
from tutti.tasks.synthesis.gating.duplicates import Duplicates
from tutti.tasks.synthesis.gating.gate import Gate
from tutti.tasks.synthesis.gating.leak import Leak
from tutti.tasks.synthesis.gating.parses import Parses
from tutti.tasks.synthesis.gating.records import Records
from tutti.tasks.synthesis.gating.suffices import Suffices

GATES: dict[str, Gate] = {
    "parses": Parses(),
    "records": Records(),
    "leak": Leak(),
    "contamination": Contamination(),
    "suffices": Suffices(),  # after `executes`, whose replays it reads
    "described": Described(),  # likewise
    "duplicates": Duplicates(),  # last of these: it remembers what passes
}
"""In the order in which they are asked. A task that one rejects is not shown to those after it."""
