"""The gates of questions about documents, cheap ones first: one file and one line each."""

from tutti.tasks.synthesis.documents.gates.blind import BLIND
from tutti.tasks.synthesis.documents.gates.contamination import CONTAMINATION
from tutti.tasks.synthesis.documents.gates.duplicates import DUPLICATES
from tutti.tasks.synthesis.documents.gates.gate import QuestionGate
from tutti.tasks.synthesis.documents.gates.leak import LEAK
from tutti.tasks.synthesis.documents.gates.parses import PARSES
from tutti.tasks.synthesis.documents.gates.retrievable import RETRIEVABLE
from tutti.tasks.synthesis.documents.gates.single_answer import SINGLE_ANSWER

DOCUMENT_GATES: dict[str, QuestionGate] = {
    gate.name: gate
    for gate in (
        PARSES,
        LEAK,
        CONTAMINATION,
        BLIND,
        RETRIEVABLE,
        SINGLE_ANSWER,
        DUPLICATES,  # last: it remembers what passed
    )
}
"""In the order in which they are asked. A question that one rejects is not shown to the rest."""
