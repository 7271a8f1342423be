"""Statistics of measurements: intervals of figures and comparisons of two figures.

The same input, and the same seed, gives the same result. docs/statistics.md explains which is used
when.
"""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.scoring.statistics.batches import batch_interval as batch_interval
    from tutti.tasks.scoring.statistics.batches import goodput as goodput
    from tutti.tasks.scoring.statistics.means import CONFIDENCE as CONFIDENCE
    from tutti.tasks.scoring.statistics.means import Interval as Interval
    from tutti.tasks.scoring.statistics.means import Ratio as Ratio
    from tutti.tasks.scoring.statistics.means import bootstrap_mean as bootstrap_mean
    from tutti.tasks.scoring.statistics.means import mean_interval as mean_interval
    from tutti.tasks.scoring.statistics.means import ratio_of_sums as ratio_of_sums
    from tutti.tasks.scoring.statistics.means import spread as spread
    from tutti.tasks.scoring.statistics.means import wilson as wilson
    from tutti.tasks.scoring.statistics.paired import MOST_LOST as MOST_LOST
    from tutti.tasks.scoring.statistics.paired import ConfidenceSequence as ConfidenceSequence
    from tutti.tasks.scoring.statistics.paired import Finding as Finding
    from tutti.tasks.scoring.statistics.paired import InterimResult as InterimResult
    from tutti.tasks.scoring.statistics.paired import Word as Word
    from tutti.tasks.scoring.statistics.paired import compare_paired as compare_paired
    from tutti.tasks.scoring.statistics.paired import expected_sd as expected_sd
    from tutti.tasks.scoring.statistics.paired import judge as judge
    from tutti.tasks.scoring.statistics.paired import minimum_detectable as minimum_detectable
    from tutti.tasks.scoring.statistics.paired import (
        simultaneous_confidence as simultaneous_confidence,
    )
    from tutti.tasks.scoring.statistics.pareto import Point as Point
    from tutti.tasks.scoring.statistics.pareto import pareto_front as pareto_front

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
