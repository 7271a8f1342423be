"""Statistics of measurements: intervals of figures and comparisons of two figures.

Pure functions on plain numbers; the same input, and the same seed if one is taken, gives the same
result. Each docstring names the source of its formula. docs/statistics.md explains which is used
when.
"""

from typing import TYPE_CHECKING

from tutti.face import lazy
from tutti.tasks.scoring.statistics.batches import (
    BatchInterval,
    Goodput,
    TimedTasks,
    batch_interval,
    goodput,
)
from tutti.tasks.scoring.statistics.bootstrap import bootstrap_mean
from tutti.tasks.scoring.statistics.intervals import CONFIDENCE, Interval, wilson
from tutti.tasks.scoring.statistics.means import MeanEstimate, mean_interval
from tutti.tasks.scoring.statistics.paired import Comparison, compare_paired, sign_flip
from tutti.tasks.scoring.statistics.pareto import FrontPlace, Point, pareto_front
from tutti.tasks.scoring.statistics.power import expected_sd, minimum_detectable
from tutti.tasks.scoring.statistics.ratios import Ratio, ratio_of_sums
from tutti.tasks.scoring.statistics.sequential import (
    ConfidenceSequence,
    InterimResult,
    confidence_sequence,
    look,
)
from tutti.tasks.scoring.statistics.spread import Spread, spread
from tutti.tasks.scoring.statistics.verdicts import (
    MOST_LOST,
    Finding,
    Verdict,
    holm,
    judge,
    simultaneous_confidence,
)

__all__ = [
    "CONFIDENCE",
    "MOST_LOST",
    "BatchInterval",
    "Comparison",
    "ConfidenceSequence",
    "Finding",
    "FrontPlace",
    "Goodput",
    "InterimResult",
    "Interval",
    "MeanEstimate",
    "Point",
    "Ratio",
    "Spread",
    "TimedTasks",
    "Verdict",
    "batch_interval",
    "bootstrap_mean",
    "compare_paired",
    "confidence_sequence",
    "expected_sd",
    "goodput",
    "holm",
    "judge",
    "look",
    "mean_interval",
    "minimum_detectable",
    "pareto_front",
    "ratio_of_sums",
    "sign_flip",
    "simultaneous_confidence",
    "spread",
    "wilson",
]

if TYPE_CHECKING:
    from tutti.tasks.scoring.statistics.verdicts import Word as Word

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
