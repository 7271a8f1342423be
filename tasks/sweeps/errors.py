"""Sweeps' errors.

SuiteError       a suite file is wrong
└── GateError    its gates are, or a gate file
"""


class SuiteError(ValueError):
    """A suite file is wrong; the message names file, field and value."""


class GateError(SuiteError):
    """A gate file is wrong; the message names file, field and value."""
