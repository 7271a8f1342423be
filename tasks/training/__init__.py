"""Training: the pocket model from scratch, short fine-tuning runs, and the checkpoints' cards."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.training.backends.configure import configure_backend as configure_backend
    from tutti.tasks.training.backends.configure import configure_policy as configure_policy
    from tutti.tasks.training.checkpoints import Checkpoint as Checkpoint
    from tutti.tasks.training.checkpoints import base_of as base_of
    from tutti.tasks.training.checkpoints import ends_of_base as ends_of_base
    from tutti.tasks.training.checkpoints import fit_set as fit_set
    from tutti.tasks.training.checkpoints import frozen_set as frozen_set
    from tutti.tasks.training.exports import export_training_set as export_training_set
    from tutti.tasks.training.jobs.job import JobError as JobError
    from tutti.tasks.training.jobs.job import TrainingData as TrainingData
    from tutti.tasks.training.jobs.job import TrainJob as TrainJob
    from tutti.tasks.training.jobs.job import job_with as job_with
    from tutti.tasks.training.jobs.settings import OptimizerSettings as OptimizerSettings
    from tutti.tasks.training.jobs.stage import TrainingFailed as TrainingFailed
    from tutti.tasks.training.jobs.stage import WallTimeReached as WallTimeReached
    from tutti.tasks.training.sets.build import build_set as build_set
    from tutti.tasks.training.sets.build import conversation_set as conversation_set
    from tutti.tasks.training.sets.build import made_conversations as made_conversations
    from tutti.tasks.training.sets.frozen import TrainingSet as TrainingSet

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
