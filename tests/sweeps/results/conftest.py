"""Fixtures: the store of the reports' tests, for the figures that reports show."""

from tests.reporting.conftest import connect_to, connection

__all__ = ["connect_to", "connection"]
