"""Import and export of other programs' logs: a format is one file and one line in a dict.

An importer is ``read(path, run) -> Iterator[ImportedItem]``, where `run` names runs whose files
have no name. An exporter is ``write(trials, folder) -> list[Path]``. Their modules are loaded on
first use.
"""

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti.face import lazy
from tutti.storage import StoreError
from tutti.tasks.exchange.base.imported import Cell as Cell
from tutti.tasks.exchange.base.imported import ImportedAttempt as ImportedAttempt
from tutti.tasks.exchange.base.imported import ImportedItem as ImportedItem
from tutti.tasks.exchange.base.imported import ImportedRecords as ImportedRecords
from tutti.tasks.exchange.base.imported import ImportIssue as ImportIssue
from tutti.tasks.exchange.inspect import require_inspect

Importer = Callable[[Path, str], Iterator[ImportedItem]]
Exporter = Callable[[Iterator[ImportedAttempt], Path], list[Path]]


def _loaded(module: str, work: str = "read") -> Callable[..., Any]:
    """Return a function of a format's module, which is loaded at the first call."""

    def run(*given: Any) -> Any:
        if module.startswith("inspect"):
            require_inspect()
        return getattr(import_module(f"{__name__}.{module}"), work)(*given)

    return run


IMPORTERS: dict[str, Importer] = {
    "inspect": _loaded("inspect.read"),
    "atif": _loaded("atif"),
    "verifiers": _loaded("verifiers"),
    "nemo-skills": _loaded("nemo_skills.read"),
    "lm-eval": _loaded("lm_eval"),
    "tau2": _loaded("tau2"),
    "thunderagent": _loaded("thunderagent.read"),
    "swe-bench": _loaded("swe_bench.read"),
    "mini-swe-agent": _loaded("swe_bench.mini_swe_agent"),
    "terminal-bench": _loaded("terminal_bench"),
}
EXPORTERS: dict[str, Exporter] = {
    "inspect": _loaded("inspect.write", "write"),
    "atif": _loaded("atif", "write"),
}

NAMES = (
    ("terminal-bench", "tb.lock"),  # before the logs that agents leave in a run's folder
    ("inspect", "*.eval"),
    ("thunderagent", "orchestrator_usage.jsonl"),
    ("thunderagent", "*_timeseries.csv"),
    ("nemo-skills", "output-rs*.jsonl*"),
    ("lm-eval", "samples_*.jsonl*"),
    ("mini-swe-agent", "*.traj.json"),
    ("atif", "*trajectory*.json"),
    ("verifiers", "traces.jsonl"),
    ("verifiers", "*rollouts*.jsonl"),
)
"""File names that identify a format."""
CONTENTS = (
    ("terminal-bench", "*.json", r'"is_resolved"\s*:.*"failure_mode"\s*:'),
    ("atif", "*.json", r'"schema_version"\s*:\s*"ATIF|"trial_name"\s*:'),
    ("inspect", "*.json", r'"eval"\s*:\s*\{[^{}]*"(eval_id|run_id|created)"'),
    ("swe-bench", "*.json", r'"(resolved_instances|resolved_ids)"\s*:'),
    ("mini-swe-agent", "*.json", r'"instance_cost"\s*:'),
    ("tau2", "*.json", r'"simulations"\s*:|"info"\s*:\s*\{[^{]*"git_commit"'),
    ("lm-eval", "*.jsonl", r'"(filtered_resps|resps)"\s*:'),
    ("nemo-skills", "*.jsonl", r'"generation"\s*:'),
    ("verifiers", "*.jsonl", r'"(completion|trajectory)"\s*:.*"reward"|"example_id"\s*:'),
)
"""Beginnings of files whose names do not identify their format."""
BEGINNING_BYTES = 65_536
FILES_LOOKED_AT = 2000  # of a folder


def detect(path: Path) -> str:
    """Detect the format of a file or folder. Raises StoreError with the known ones."""
    if not path.exists():
        raise StoreError(f"{path}: there is no such file or folder")
    below = (file for file in path.rglob("*") if file.is_file())
    files = [path] if path.is_file() else sorted(islice(below, FILES_LOOKED_AT))
    for format, pattern in NAMES:
        if any(fnmatch(file.name, pattern) for file in files):
            return format
    for format, pattern, content in CONTENTS:
        for file in (file for file in files if fnmatch(file.name, pattern)):
            with file.open("rb") as stream:
                beginning = stream.read(BEGINNING_BYTES).decode(errors="replace")
            if re.search(content, beginning, re.DOTALL):
                return format
    known = ", ".join(IMPORTERS)
    raise StoreError(f"{path}: the format was not recognised; name it: {known}")


def export(
    format: str, trials: Iterator[ImportedAttempt], folder: Path, force: bool = False
) -> list[Path]:
    """Write `trials` into `folder`, completely or not at all. Raises StoreError. If files of the
    same names exist, nothing is written, unless `force` is set."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as work:
            written = EXPORTERS[format](trials, Path(work))
            if not written:
                raise StoreError("no stored attempt matches the selection")
            targets = [folder / path.name for path in written]
            taken = [str(target) for target in targets if target.exists()]
            if taken and not force:
                words = f"{taken[0]} and {len(taken) - 1} more" if len(taken) > 1 else taken[0]
                raise StoreError(f"{words}: exists already; --force replaces it")
            folder.mkdir(exist_ok=True)
            for path, target in zip(written, targets, strict=True):
                os.replace(path, target)
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror or error}") from error
    return targets


if TYPE_CHECKING:
    from tutti.tasks.exchange.base.stored import stored_trials as stored_trials
    from tutti.tasks.exchange.loader import ImportOrigin as ImportOrigin
    from tutti.tasks.exchange.loader import ImportReport as ImportReport
    from tutti.tasks.exchange.loader import load as load

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
