"""Reporting: what sweeps came to, as rows, tables, figures and one static page.

Quick to import: matplotlib, scipy and rich load when something is drawn, computed or printed.
"""

from tutti.tasks.reporting.compared import build_comparison
from tutti.tasks.reporting.console import terminal_summary
from tutti.tasks.reporting.efficiency import Efficiency
from tutti.tasks.reporting.families import FamilyScore, family_scores
from tutti.tasks.reporting.noise import Noise
from tutti.tasks.reporting.page import Report, build_report
from tutti.tasks.reporting.summary import CellSummary, LoadPoint, summarise
from tutti.tasks.reporting.terminal import (
    comparison_tables,
    failure_table,
    family_table,
    markdown_table,
    terminal_table,
)

__all__ = [
    "CellSummary",
    "Efficiency",
    "FamilyScore",
    "LoadPoint",
    "Noise",
    "Report",
    "build_comparison",
    "build_report",
    "comparison_tables",
    "failure_table",
    "family_scores",
    "family_table",
    "markdown_table",
    "summarise",
    "terminal_summary",
    "terminal_table",
]
