"""The pocket model: tokenizer, shadow worlds, training loop. Runs in the models environment."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.training.pocket.build import POCKET_TASKS as POCKET_TASKS
    from tutti.tasks.training.pocket.build import served_from as served_from
    from tutti.tasks.training.pocket.build import train_pocket as train_pocket

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
