"""Flags that verbs of several groups share."""

import re
from pathlib import Path
from typing import Annotated

import typer

from tutti.errors import UsageError
from tutti.tasks.project import default_registry

ModelsFile = Annotated[
    Path,
    typer.Option(
        "--models",
        help="the model registry file",
        default_factory=default_registry,
        show_default="models.yaml in this folder, or else tutti's own",
    ),
]
"""Without a default in the signature: it depends on the folder."""

AsJson = Annotated[bool, typer.Option("--json", help="print JSON instead of text")]


ExitZero = Annotated[
    bool,
    typer.Option("--exit-zero", help="exit with 0 whatever the result is; errors keep their codes"),
]
"""For scripts that only read what is printed."""


def minutes_of(text: str) -> float:
    """A time such as ``90s``, ``30m`` or ``2h`` in minutes. Raises UsageError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if found is None or not float(found[1]):
        raise UsageError(f"{text!r}: a time is a number and s, m or h, as 30m")
    return float(found[1]) * {"s": 1 / 60, "m": 1.0, "h": 60.0}[found[2]]
