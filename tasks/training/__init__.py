"""Training: the pocket model from scratch, short fine-tuning runs, and the checkpoints' cards."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.training.serve_adapter import load_adapter as load_adapter
    from tutti.tasks.training.stage import TrainingFailed as TrainingFailed
    from tutti.tasks.training.stage import finetune as finetune
    from tutti.tasks.training.stage import write_training_set as write_training_set

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
