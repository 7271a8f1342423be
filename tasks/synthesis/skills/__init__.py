"""Skills and levels of tasks: by attributes or a teacher, and by measured pass rates."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.synthesis.skills.making import LabelRequest as LabelRequest
    from tutti.tasks.synthesis.skills.making import LabelSource as LabelSource

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
