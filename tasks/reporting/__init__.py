"""Reporting: what sweeps came to, as rows, tables, figures and one static page.

Quick to import: matplotlib, scipy and rich load when something is drawn, computed or printed.
"""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.reporting.compared import SweepPair as SweepPair
    from tutti.tasks.reporting.compared import build_comparison as build_comparison
    from tutti.tasks.reporting.efficiency import Efficiency as Efficiency
    from tutti.tasks.reporting.families import FamilyScore as FamilyScore
    from tutti.tasks.reporting.families import family_scores as family_scores
    from tutti.tasks.reporting.intervals import ratio as ratio
    from tutti.tasks.reporting.intervals import t_interval as t_interval
    from tutti.tasks.reporting.noise import Noise as Noise
    from tutti.tasks.reporting.page import Report as Report
    from tutti.tasks.reporting.page import build_report as build_report
    from tutti.tasks.reporting.publish import ReportFiles as ReportFiles
    from tutti.tasks.reporting.publish import publish_comparison as publish_comparison
    from tutti.tasks.reporting.publish import publish_if_recorded as publish_if_recorded
    from tutti.tasks.reporting.publish import publish_report as publish_report
    from tutti.tasks.reporting.publish import publish_task_set as publish_task_set
    from tutti.tasks.reporting.publish import publish_training as publish_training
    from tutti.tasks.reporting.summary import CellSummary as CellSummary
    from tutti.tasks.reporting.summary import LoadPoint as LoadPoint
    from tutti.tasks.reporting.summary import load_points as load_points
    from tutti.tasks.reporting.summary import summarise as summarise
    from tutti.tasks.reporting.text.artifact import results_page as results_page
    from tutti.tasks.reporting.text.numbers import ABSENT as ABSENT
    from tutti.tasks.reporting.text.numbers import rate as rate
    from tutti.tasks.reporting.text.numbers import seconds as seconds
    from tutti.tasks.reporting.text.numbers import share as share
    from tutti.tasks.reporting.text.numbers import span as span
    from tutti.tasks.reporting.text.terminal import comparison_tables as comparison_tables
    from tutti.tasks.reporting.text.terminal import failure_table as failure_table
    from tutti.tasks.reporting.text.terminal import family_table as family_table
    from tutti.tasks.reporting.text.terminal import markdown_table as markdown_table
    from tutti.tasks.reporting.text.terminal import terminal_summary as terminal_summary
    from tutti.tasks.reporting.text.terminal import terminal_table as terminal_table
    from tutti.tasks.reporting.training.curves import live_view as live_view
    from tutti.tasks.reporting.training.page import TrainingReport as TrainingReport
    from tutti.tasks.reporting.training.page import build_training_report as build_training_report
    from tutti.tasks.reporting.training.record import steps_recorded as steps_recorded

if not TYPE_CHECKING:  # with it, a type checker would take any name for one of ours
    __getattr__ = lazy(__name__, __file__)
