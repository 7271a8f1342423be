"""The store of reports, for the figures that they show."""

from tests.reporting.conftest import connect_to, connection

__all__ = ["connect_to", "connection"]
