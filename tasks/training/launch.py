"""Running a module of tutti in the models environment, where tutti is not installed.

The packages beside an installed tutti are the platform's and must not be imported here. So `tutti`
is loaded from its own folder, which stays out of the module search path; -P keeps this file's
folder out too. Run: ``python -P PACKAGE/tasks/training/launch.py MODULE [ARGUMENT ...]``.
"""

import importlib.util
import os
import runpy
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2]


def load_package(folder: Path) -> None:
    """Import the package `tutti` from `folder`, so that its modules can be imported."""
    spec = importlib.util.spec_from_file_location(
        "tutti", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None, f"{folder} has no __init__.py"
    sys.modules["tutti"] = package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)


if __name__ == "__main__":
    load_package(PACKAGE)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    from tutti.tasks.training.launch_many import WORLD

    if WORLD in os.environ:
        # A thread of gloo that drops a tensor late aborts a Python that shuts down: pytorch 179291.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
