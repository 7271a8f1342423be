"""The pocket model: tokenizer, shadow worlds, training loop. Runs in the models environment."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.training.pocket.build import POCKET_TASKS as POCKET_TASKS
    from tutti.tasks.training.pocket.build import train_pocket as train_pocket

__getattr__ = lazy(__name__, __file__)
