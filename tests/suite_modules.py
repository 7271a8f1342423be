"""Counts the modules that a suite uses: those whose functions run until its first attempt.

Run: ``python -m tests.suite_modules deployments/suites/smoke.yaml``, where the suite's model can be
served. In: a suite file. Out: the modules of tutti that ran a function in this process, between
reading the file and the first row of `attempts`, and their number. Engines, the gateway and the
search service are separate processes and not counted.
"""

import asyncio
import inspect
import os
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock


class _Counting:
    """Recorder of modules until it is stopped."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.stopped = False

    def note(self, frame: FrameType, event: str, argument: object) -> None:
        """Record a module, as a profile function; bodies of modules and classes, which run at
        import, do not count."""
        if event == "call" and not self.stopped and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            name = frame.f_globals.get("__name__", "")
            if name.startswith("tutti."):
                self.modules.add(name)


def passed_modules(suite_file: Path) -> list[str]:
    """Run the sweep to its end in a new store and return the modules, sorted."""
    from tutti.flows.sweep import eval_sweep
    from tutti.storage.write import buffered
    from tutti.storage.write.writer import commit_tables
    from tutti.tasks.platform.project import MODELS
    from tutti.tasks.sweeps.spec import read_suite

    counting, commit = _Counting(), commit_tables

    def committed(catalog: Any, tables: Mapping[str, Any], *more: Any) -> None:
        commit(catalog, tables, *more)
        if "attempts" in tables and tables["attempts"].num_rows:
            counting.stopped = True

    with mock.patch.object(buffered, "commit_tables", committed):
        threading.setprofile(counting.note)
        sys.setprofile(counting.note)
        try:
            asyncio.run(eval_sweep.fn(read_suite(suite_file), MODELS))
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return sorted(counting.modules)


def main() -> None:
    """Print the modules."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["TUTTI_HOME"] = home
        modules = passed_modules(Path(sys.argv[1]))
    print("\n".join(modules))
    print(len(modules), "modules")


if __name__ == "__main__":
    main()
