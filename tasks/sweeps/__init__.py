"""Sweeps: suites become plans, plans become cells, cells become attempts in the store.

SuiteError       a suite file is wrong
└── GateError    its gates are, or a gate file
"""

from tutti.errors import ExitCode, TuttiError


class SuiteError(TuttiError, ValueError):
    """A suite file is wrong; the message names file, field and value."""

    exit_code = ExitCode.BAD_USAGE


class GateError(SuiteError):
    """A gate file is wrong; the message names file, field and value."""
