"""The task families by name. A family proposes questions and solves them."""

from tutti.tasks.synthesis.families.computed import ARITHMETIC, CountSum
from tutti.tasks.synthesis.families.expression import EXPRESSION
from tutti.tasks.synthesis.families.expression import QUESTIONS as QUESTIONS
from tutti.tasks.synthesis.families.lookups import DEFAULT, LAST_PARAMETER, MODULE, PARAMETER
from tutti.tasks.synthesis.families.task import Family

_ALL: tuple[Family, ...] = (
    MODULE,
    PARAMETER,
    DEFAULT,
    EXPRESSION,
    ARITHMETIC,
    CountSum(),
    LAST_PARAMETER,
)
FAMILIES: dict[str, Family] = {family.name: family for family in _ALL}
