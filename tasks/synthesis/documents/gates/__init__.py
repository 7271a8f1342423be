"""The gates of questions about documents, cheap ones first: one file and one line each."""

from tutti.tasks.synthesis.documents.gates.blind import Blind
from tutti.tasks.synthesis.documents.gates.contamination import Contamination
from tutti.tasks.synthesis.documents.gates.duplicates import Duplicates
from tutti.tasks.synthesis.documents.gates.gate import QuestionGate
from tutti.tasks.synthesis.documents.gates.leak import Leak
from tutti.tasks.synthesis.documents.gates.parses import Parses
from tutti.tasks.synthesis.documents.gates.retrievable import Retrievable
from tutti.tasks.synthesis.documents.gates.single_answer import SingleAnswer

DOCUMENT_GATES: dict[str, QuestionGate] = {
    gate.name: gate
    for gate in (
        Parses(),
        Leak(),
        Contamination(),
        Blind(),
        Retrievable(),
        SingleAnswer(),
        Duplicates(),  # last: it remembers what passed
    )
}
"""In the order in which they are asked. A question that one rejects is not shown to the rest."""
