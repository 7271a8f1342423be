"""The task families: one file and one line each. A family proposes questions and solves them."""

from tasks.synthesis.families.arithmetic import Arithmetic
from tasks.synthesis.families.count_sum import CountSum
from tasks.synthesis.families.default import DefaultValue
from tasks.synthesis.families.expression import Expression
from tasks.synthesis.families.last_parameter import LastParameter
from tasks.synthesis.families.module import ModuleOf
from tasks.synthesis.families.parameter import NthParameter
from tasks.synthesis.task import Family

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
