"""Fixtures of the nights' tests: the store of the sweeps' tests."""

from tests.sweeps.conftest import catalog as catalog
