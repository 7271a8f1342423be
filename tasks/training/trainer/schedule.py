"""The learning rate over a training: linear warm-up, then cosine, linear or constant."""

import math
from dataclasses import dataclass

from tutti.tasks.training.settings import OptimizerSettings


@dataclass(frozen=True)
class Schedule:
    """By the share of the training that is done, 0 to 1."""

    settings: OptimizerSettings

    def rate(self, done: float) -> float:
        """The learning rate at `done`."""
        asked = self.settings
        if done < asked.warmup_share:
            return asked.learning_rate * max(done, 1e-3) / asked.warmup_share
        left = 1.0 - (done - asked.warmup_share) / max(1e-9, 1.0 - asked.warmup_share)
        falls = {"cosine": 0.5 * (1 - math.cos(math.pi * left)), "linear": left, "constant": 1.0}
        share = asked.final_share + (1 - asked.final_share) * falls[asked.schedule]
        return asked.learning_rate * share
