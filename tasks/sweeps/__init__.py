"""Sweeps: suites become plans, plans become cells, cells become attempts in the store.

SuiteError       a suite file is invalid
└── GateError    its gates are, or a gate file
"""

from tutti.errors import ExitCode, TuttiError


class SuiteError(TuttiError, ValueError):
    """An invalid suite file; the message names file, field and value."""

    exit_code = ExitCode.BAD_USAGE


class GateError(SuiteError):
    """An invalid gate file; the message names file, field and value."""
