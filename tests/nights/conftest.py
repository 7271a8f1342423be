"""Nights are judged from sweeps: the same store as theirs."""

from tests.sweeps.conftest import catalog as catalog
