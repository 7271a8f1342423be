"""The task families: one file and one line each. A family proposes questions and solves them."""

from typing import TYPE_CHECKING

from tutti.face import lazy
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

if TYPE_CHECKING:
    from tutti.tasks.synthesis.families.expression import QUESTIONS as QUESTIONS

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
