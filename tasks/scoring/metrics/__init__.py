"""Metrics over tasks with several trials, of confidences, and of judges."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.scoring.metrics.judges import Agreement as Agreement
    from tutti.tasks.scoring.metrics.judges import NotComparable as NotComparable
    from tutti.tasks.scoring.metrics.judges import Rating as Rating
    from tutti.tasks.scoring.metrics.judges import agreement as agreement
    from tutti.tasks.scoring.metrics.judges import ratings as ratings
    from tutti.tasks.scoring.metrics.trials import avg_at_n as avg_at_n
    from tutti.tasks.scoring.metrics.trials import best_of_k as best_of_k
    from tutti.tasks.scoring.metrics.trials import calibration_error as calibration_error
    from tutti.tasks.scoring.metrics.trials import f1_of_attempted as f1_of_attempted
    from tutti.tasks.scoring.metrics.trials import majority_at_k as majority_at_k
    from tutti.tasks.scoring.metrics.trials import pass_at_k as pass_at_k
    from tutti.tasks.scoring.metrics.trials import pass_hat_k as pass_hat_k
    from tutti.tasks.scoring.metrics.trials import right_of_attempted as right_of_attempted

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
