"""Flags that verbs of several groups share."""

from pathlib import Path
from typing import Annotated

import typer

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
AsFlowRun = Annotated[
    bool, typer.Option("--prefect/--no-prefect", help="run as a Prefect flow run")
]
