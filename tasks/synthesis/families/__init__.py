"""The task families: one file and one line each. A family proposes questions and solves them."""

from tutti.tasks.synthesis.families.arithmetic import Arithmetic
from tutti.tasks.synthesis.families.count_sum import CountSum
from tutti.tasks.synthesis.families.default import DefaultValue
from tutti.tasks.synthesis.families.expression import Expression
from tutti.tasks.synthesis.families.last_parameter import LastParameter
from tutti.tasks.synthesis.families.module import ModuleOf
from tutti.tasks.synthesis.families.parameter import NthParameter
from tutti.tasks.synthesis.task import Family

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        ModuleOf(),
        NthParameter(),
        DefaultValue(),
        Expression(),
        Arithmetic(),
        CountSum(),
        LastParameter(),
    )
}
