"""The interpreter for programs that need libraries: the one that `TUTTI_CODE_PYTHON` names.

In: the variable. Out: a `SandboxPython` for `SandboxLimits`, or None if it is not set. The
interpreter's environment is readable to the programs, so it should hold nothing else.
"""

import json
import os
import subprocess
from functools import cache
from pathlib import Path

from tutti.tasks.sandbox.values import SandboxPython, SandboxUnavailable

CODE_PYTHON = "TUTTI_CODE_PYTHON"
_HIDDEN = ("/tmp", "/dev", "/proc")  # programs get their own, above the host's
_FIRST = (3, 9)  # what `child` needs
_ASK_S = 30.0
_ASK = (
    "import json, sys; print(json.dumps([sys.prefix, sys.base_prefix, list(sys.version_info[:2])]))"
)


def python_for_code() -> SandboxPython | None:
    """The interpreter that TUTTI_CODE_PYTHON names; None if it is not set.

    Raises SandboxUnavailable if it names none that programs can run.
    """
    named = os.environ.get(CODE_PYTHON, "")
    return _examined(os.path.abspath(named)) if named else None


@cache
def _examined(executable: str) -> SandboxPython:
    try:
        said = subprocess.run(
            [executable, "-I", "-c", _ASK], capture_output=True, timeout=_ASK_S, check=True
        ).stdout
        prefix, base, version = json.loads(said)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise SandboxUnavailable(f"{CODE_PYTHON}={executable}: is no Python: {error}") from error
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
