"""Reporting: what sweeps came to, as rows, tables, figures and one static page.

Quick to import: matplotlib, scipy and rich load when something is drawn, computed or printed.
"""

from tasks.reporting.page import Report, build_report
from tasks.reporting.summary import CellSummary, FamilyScore, family_scores, summarise
from tasks.reporting.terminal import family_table, markdown_table, terminal_table

__all__ = [
    "CellSummary",
    "FamilyScore",
    "Report",
    "build_report",
    "family_scores",
    "family_table",
    "markdown_table",
    "summarise",
    "terminal_table",
]
