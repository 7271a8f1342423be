"""Programs that make domains without a model: one file or folder, and one line here each."""

from tutti.tasks.synthesis.programs.bank.bank import Bank
from tutti.tasks.synthesis.programs.program import Program
from tutti.tasks.synthesis.programs.retail.retail import Retail

PROGRAMS: dict[str, Program] = {
    "bank": Bank(),
    "retail": Retail(),
}
