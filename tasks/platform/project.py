"""The location of this project's own files: its registry, suites, agents, prices and weights.

In a checkout they are in the folders beside the package, in an installed wheel in the package.
"""

import os
from importlib import metadata
from pathlib import Path

import tutti

PACKAGE = Path(tutti.__file__).parent
_BESIDE = PACKAGE.resolve().parent
IS_SOURCE = (_BESIDE / "pyproject.toml").is_file() and (_BESIDE / "deployments").is_dir()
"""Whether the project's sources run, with a Makefile, and not an installed wheel."""
IS_CHECKOUT = IS_SOURCE and (_BESIDE / ".git").exists()
PROJECT = _BESIDE if IS_SOURCE else PACKAGE
"""The folder that holds `assets`, `deployments`, `flows` and `prefect.yaml`."""
IMPORTS = {"PYTHONPATH": str(_BESIDE)} if IS_SOURCE else {}
"""The environment by which a process of this same Python imports `tutti`; of a wheel nothing."""
MODELS = (PACKAGE / "deployments" / "models.yaml").resolve()
DEPLOYMENTS = MODELS.parent
SUITES = DEPLOYMENTS / "suites"
POCKET = PROJECT / "assets" / "pocket"  # the weights of the small model that comes with the project
TRAINED_POCKET = POCKET if IS_SOURCE else Path("pocket")
"""Where `tutti train pocket` writes: an installed package is not changed."""
MODELS_ENVIRONMENT = ".venv-models"


def package_version() -> str:
    """The version of the installed package, "unknown" if it is not installed."""
    try:
        return metadata.version("tutti")
    except metadata.PackageNotFoundError:
        return "unknown"


def default_registry() -> Path:
    """Return the default model registry: `models.yaml` here, or else tutti's own."""
    here = Path("models.yaml")
    return here if here.is_file() else MODELS


def models_python_path() -> Path:
    """Return the Python of the models environment, which need not exist: TUTTI_MODELS_PYTHON, or
    else in `.venv-models` of the sources, or of the current folder if tutti is installed."""
    folder = PROJECT if IS_SOURCE else Path.cwd()
    default = folder / MODELS_ENVIRONMENT / "bin" / "python"
    return Path(os.environ.get("TUTTI_MODELS_PYTHON") or default)
