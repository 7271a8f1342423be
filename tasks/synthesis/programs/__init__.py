"""Programs that make domains without a model: one file or folder, and one line here each."""

from tutti.tasks.synthesis.programs.knowledge_graph import KNOWLEDGE_GRAPH
from tutti.tasks.synthesis.programs.program import Program

PROGRAMS: dict[str, Program] = {
    "knowledge_graph": KNOWLEDGE_GRAPH,
}
