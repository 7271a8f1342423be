"""Commands that repair an installation: of a checkout by its Makefile, of a wheel by hand.

Out: `FIXES`, which `tutti doctor` shows.
"""

import shlex
import shutil
from collections.abc import Iterable
from dataclasses import dataclass

from tutti.tasks.platform import DEPLOYMENTS, IS_SOURCE, MODELS_ENVIRONMENT

MODELS_PYTHON_VERSION = "3.11"  # the pinned torch and vLLM have wheels for it
CPU_PINS = {
    "constraint": "constraints-models.txt",
    "override": "models-overrides.txt",
    "requirement": "models-requirements.txt",
}
CUDA_PINS = {
    "constraint": "constraints-models-cuda.txt",
    "requirement": "models-requirements-cuda.txt",
}


@dataclass(frozen=True)
class Fixes:
    """The commands that repair a part of the installation; several lines are several commands."""

    platform: str
    python: str
    models: str
    checkpoint: str
    registry: str


def installed_fixes(cuda: bool) -> Fixes:
    """The fixes for an installed package, by its pinned versions; for CUDA if there is a driver."""
    reinstall = "reinstall tutti's wheel: pip install --force-reinstall tutti-….whl"
    python = f"{MODELS_ENVIRONMENT}/bin/python"
    pins = CUDA_PINS if cuda else CPU_PINS
    torch = "auto" if cuda else "cpu"
    files = [f"--{flag} {shlex.quote(str(DEPLOYMENTS / name))}" for flag, name in pins.items()]
    models = [
        "python -m pip install uv",
        f"uv venv --python {MODELS_PYTHON_VERSION} {MODELS_ENVIRONMENT}",
        " ".join(["uv pip install --python", python, f"--torch-backend {torch}", *files]),
    ]
    return Fixes(reinstall, "use Python 3.11 to 3.13", "\n".join(models), reinstall, reinstall)


def long_fixes(fixes: Iterable[tuple[str, str]]) -> str:
    """The fixes with several commands, by subject, as verbatim text that no table folds."""
    return "".join(f"\n{name}:\n\n{fix}\n" for name, fix in fixes if "\n" in fix)


CHECKOUT_FIXES = Fixes(
    platform="make setup",
    python="make setup PYTHON=python3.11",
    models="make setup",
    checkpoint="git checkout -- assets/pocket",
    registry="git checkout -- deployments",
)
HAS_DRIVER = shutil.which("nvidia-smi") is not None
FIXES = CHECKOUT_FIXES if IS_SOURCE else installed_fixes(HAS_DRIVER)
