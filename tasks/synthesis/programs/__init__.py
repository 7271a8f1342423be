"""Programs that make domains without a model: one file or folder, and one line here each."""

from tutti.tasks.synthesis.programs.arithmetic import ARITHMETIC
from tutti.tasks.synthesis.programs.bank import Bank
from tutti.tasks.synthesis.programs.knowledge_graph import KNOWLEDGE_GRAPH
from tutti.tasks.synthesis.programs.program import Program
from tutti.tasks.synthesis.programs.retail import Retail
from tutti.tasks.synthesis.programs.workflow import WORKFLOW

PROGRAMS: dict[str, Program] = {
    "retail": Retail(),
    "bank": Bank(),
    "knowledge_graph": KNOWLEDGE_GRAPH,
    "arithmetic": ARITHMETIC,
    "workflow": WORKFLOW,
}
