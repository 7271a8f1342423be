"""Reporting: stored sweeps, trainings and task sets as tables, figures and one static page.

Quick to import: matplotlib, scipy and rich load when something is drawn, computed or printed.
"""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.reporting.measures.efficiency import Efficiency as Efficiency
    from tutti.tasks.reporting.measures.families import FamilyScore as FamilyScore
    from tutti.tasks.reporting.measures.families import family_scores as family_scores
    from tutti.tasks.reporting.measures.pairs import Noise as Noise
    from tutti.tasks.reporting.page import Report as Report
    from tutti.tasks.reporting.page import build_report as build_report
    from tutti.tasks.reporting.publish import ReportFiles as ReportFiles
    from tutti.tasks.reporting.publish import publish_comparison as publish_comparison
    from tutti.tasks.reporting.publish import publish_if_recorded as publish_if_recorded
    from tutti.tasks.reporting.publish import publish_report as publish_report
    from tutti.tasks.reporting.publish import publish_task_set as publish_task_set
    from tutti.tasks.reporting.publish import publish_training as publish_training
    from tutti.tasks.reporting.terminal import concurrency_table as concurrency_table
    from tutti.tasks.reporting.terminal import family_table as family_table
    from tutti.tasks.reporting.training.curves import live_view as live_view
    from tutti.tasks.reporting.training.page import TrainingReport as TrainingReport
    from tutti.tasks.reporting.training.record import steps_recorded as steps_recorded

if not TYPE_CHECKING:  # with it, a type checker would take any name for one of ours
    __getattr__ = lazy(__name__, __file__)
