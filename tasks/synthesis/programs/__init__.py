"""Programs that make domains without a model; each is a folder, and a line here."""

from tutti.tasks.synthesis.programs.arithmetic import Arithmetic
from tutti.tasks.synthesis.programs.bank import Bank
from tutti.tasks.synthesis.programs.base.program import Program
from tutti.tasks.synthesis.programs.knowledge_graph import KnowledgeGraph
from tutti.tasks.synthesis.programs.retail import Retail
from tutti.tasks.synthesis.programs.workflow import Workflow

PROGRAMS: dict[str, Program] = {
    "retail": Retail(),
    "bank": Bank(),
    "knowledge_graph": KnowledgeGraph(),
    "arithmetic": Arithmetic(),
    "workflow": Workflow(),
}
