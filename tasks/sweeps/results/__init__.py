"""Figures of stored cells, read by SQL: one row per cell, repeats pooled, and their intervals."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.sweeps.results.intervals import both as both
    from tutti.tasks.sweeps.results.intervals import from_interval as from_interval
    from tutti.tasks.sweeps.results.intervals import ratio as ratio
    from tutti.tasks.sweeps.results.intervals import t_interval as t_interval
    from tutti.tasks.sweeps.results.summary import A_A as A_A
    from tutti.tasks.sweeps.results.summary import BASELINE as BASELINE
    from tutti.tasks.sweeps.results.summary import UNKNOWN_LOAD as UNKNOWN_LOAD
    from tutti.tasks.sweeps.results.summary import CellSummary as CellSummary
    from tutti.tasks.sweeps.results.summary import LoadPoint as LoadPoint
    from tutti.tasks.sweeps.results.summary import TrialScores as TrialScores
    from tutti.tasks.sweeps.results.summary import cells_of as cells_of
    from tutti.tasks.sweeps.results.summary import differing as differing
    from tutti.tasks.sweeps.results.summary import in_order as in_order
    from tutti.tasks.sweeps.results.summary import load_points as load_points
    from tutti.tasks.sweeps.results.summary import pooled as pooled
    from tutti.tasks.sweeps.results.summary import summarise as summarise
    from tutti.tasks.sweeps.results.summary import with_known_load as with_known_load
    from tutti.tasks.sweeps.results.summary import without_a_a as without_a_a
    from tutti.tasks.sweeps.results.tables import CURRENT as CURRENT
    from tutti.tasks.sweeps.results.tables import MACROS_USED as MACROS_USED
    from tutti.tasks.sweeps.results.tables import by_key as by_key
    from tutti.tasks.sweeps.results.tables import focus as focus
    from tutti.tasks.sweeps.results.tables import rows as rows
    from tutti.tasks.sweeps.results.tables import rows_by as rows_by

if not TYPE_CHECKING:  # with it, a type checker would take any name for one of ours
    __getattr__ = lazy(__name__, __file__)
