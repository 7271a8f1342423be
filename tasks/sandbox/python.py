"""The interpreter for programs that need libraries: the one that `TUTTI_CODE_PYTHON` names.

In: the variable. Out: a `SandboxPython` for `SandboxLimits`, or None if it is not set. The
interpreter's environment is readable to the programs, so it should hold nothing else.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from tutti.tasks.sandbox.values import SandboxPython, SandboxUnavailable

CODE_PYTHON = "TUTTI_CODE_PYTHON"
_HIDDEN = ("/tmp", "/dev", "/proc")  # programs get their own, above the host's
_FIRST = (3, 9)  # what `child` needs
_ASK_S = 30.0
_ASK = (
    "import json, sys; print(json.dumps([sys.prefix, sys.base_prefix, list(sys.version_info[:2])]))"
)
_ASK_FOR = (
    "import json, sys; from importlib.util import find_spec; "
    "print(json.dumps([each for each in sys.argv[1:] if find_spec(each) is None]))"
)


def python_for_code() -> SandboxPython | None:
    """The interpreter that TUTTI_CODE_PYTHON names; None if it is not set.

    Raises SandboxUnavailable if it names none that programs can run.
    """
    named = os.environ.get(CODE_PYTHON, "")
    return _examined(os.path.abspath(named)) if named else None


def missing_modules(names: Iterable[str], python: SandboxPython | None) -> list[str]:
    """Those of the top-level modules `names` that `python` has not; without one, those outside the
    standard library. Raises SandboxUnavailable if it does not answer."""
    wanted = sorted({*names} - sys.stdlib_module_names)
    return wanted if python is None else list(_answer(python.executable, _ASK_FOR, *wanted))


def _answer(executable: str, program: str, *arguments: str) -> Any:
    try:
        said = subprocess.run(
            [executable, "-I", "-c", program, *arguments],
            capture_output=True,
            timeout=_ASK_S,
            check=True,
        ).stdout
        return json.loads(said)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise SandboxUnavailable(f"{CODE_PYTHON}={executable}: is no Python: {error}") from error


@cache
def _examined(executable: str) -> SandboxPython:
    prefix, base, version = _answer(executable, _ASK)
    if tuple(version) < _FIRST:
        raise SandboxUnavailable(
            f"{CODE_PYTHON}={executable}: is Python {version[0]}.{version[1]}; name 3.9 or later"
        )
    folders = tuple(each for each in (prefix, base) if not Path(each).is_relative_to("/usr"))
    for folder in folders:
        if any(Path(folder).is_relative_to(hidden) for hidden in _HIDDEN):
            raise SandboxUnavailable(
                f"{CODE_PYTHON}={executable}: programs in the sandbox cannot see {folder}; make "
                "the environment in another folder"
            )
        if Path.home().is_relative_to(folder):  # "/", too
            raise SandboxUnavailable(
                f"{CODE_PYTHON}={executable}: programs in the sandbox would see all of {folder}; "
                "make an environment in a folder of its own"
            )
    return SandboxPython(executable, folders)
