"""The location of this project's own files: its registry, suites, agents and prices.

In a checkout they are in the folder `deployments` beside the package; the package holds links to
them. In an installed wheel they are in the package.
"""

from importlib import metadata
from pathlib import Path

import tutti

PACKAGE = Path(tutti.__file__).parent
PROJECT = PACKAGE.resolve().parent
"""The checkout, or the folder that the wheel is installed in."""
IS_CHECKOUT = (PROJECT / ".git").exists() and (PROJECT / "pyproject.toml").is_file()
MODELS = (PACKAGE / "deployments" / "models.yaml").resolve()
DEPLOYMENTS = MODELS.parent
SUITES = DEPLOYMENTS / "suites"


def package_version() -> str:
    """The version of the installed package, "unknown" if it is not installed."""
    try:
        return metadata.version("tutti")
    except metadata.PackageNotFoundError:
        return "unknown"


def default_registry() -> Path:
    """The model registry to use if none is named: `models.yaml` here, or else tutti's own."""
    here = Path("models.yaml")
    return here if here.is_file() else MODELS
