"""Writes a backend's configuration and data, checks it, and says how to launch it.

In: a job, a base and a training set. Out: a folder with data, configuration and `launch.sh`. The
folder appears only where all of it is valid.
"""

import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tutti.storage import Catalog
from tutti.tasks.project import IS_SOURCE, PROJECT, models_python_path
from tutti.tasks.training.backends import backend_of
from tutti.tasks.training.backends.base import (
    Backend,
    BackendJob,
    BackendRefused,
    check_names,
    known_names,
    settings_of,
)
from tutti.tasks.training.backends.checks import CHECKS, REFUSED
from tutti.tasks.training.exports import write_conversations
from tutti.tasks.training.exports.conversation import conversations_of
from tutti.tasks.training.job import TrainJob
from tutti.tasks.training.sets.frozen import TrainingSet

ENVIRONMENTS = ".venv-backends"
CHECK_S = 300
"""Longest check: LLaMA-Factory's imports take 20 s on two busy cores."""
CHECKER = Path(__file__).with_name("checks.py")


def configure_backend(
    job: TrainJob, base: Path, training_set: TrainingSet, folder: Path, catalog: Catalog
) -> dict[str, Any]:
    """Write everything that `job.backend` needs into `folder`, which must be new or empty.

    Returns the folder, the launch command, by what it was checked, and what the data do not carry.
    Raises BackendRefused, ExportRefused, StoreError.
    """
    if job.backend == "tutti":
        raise BackendRefused("--write-only: is for another backend; name it with --backend")
    with whole_folder(folder) as unfinished:
        plan = BackendJob(job, base.resolve(), training_set, folder.resolve())
        found = write_all(backend_of(job.backend), plan, unfinished, catalog)
    return {"folder": str(folder), "launch": f"bash {folder / 'launch.sh'}", **found}


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to write to, which becomes `folder` at the end; nothing is left where that fails.

    Raises BackendRefused where `folder` is not new or empty.
    """
    if folder.is_dir() and any(folder.iterdir()):
        raise BackendRefused(f"--write-only: {folder} is not empty")
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        yield unfinished
        if folder.is_dir():
            folder.rmdir()
        unfinished.chmod(0o755)
        unfinished.replace(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def write_launch(launch: str, folder: Path) -> None:
    """Write `launch.sh`, which runs its lines in its own folder."""
    header = "#!/usr/bin/env bash\n# Written by tutti. GPUS: how many of each node's are used.\n"
    script = f'{header}set -euo pipefail\ncd "$(dirname "$0")"\n{launch}'
    (folder / "launch.sh").write_text(script)


def write_all(backend: Backend, plan: BackendJob, folder: Path, catalog: Catalog) -> dict[str, Any]:
    """Write configuration, data and `launch.sh` into `folder`; paths in them are the plan's.

    Returns `checked` and `notes`. Raises BackendRefused, ExportRefused.
    """
    python = backend_python(backend.name)
    if python is None:
        check_names(backend.name, plan.job.backend_settings)
    settings = settings_of(backend, plan)
    notes: Counter[str] = Counter()
    if backend.data_format is not None:
        made = conversations_of(plan.training_set.set_id, catalog, notes)
        write_conversations(made, backend.data_format, folder / "data", notes)
    text, launch = backend.write(plan, settings)
    (folder / backend.config_file).write_text(text)
    write_launch(launch, folder)
    carried = {note: n for note, n in notes.items() if n}
    return {"checked": check(backend, python, folder), "notes": carried}


def check(backend: Backend, python: Path | None, folder: Path) -> str:
    """By what the written configuration was checked. Raises BackendRefused."""
    return check_file(backend.name, backend.name, python, folder / backend.config_file)


def check_file(backend: str, schema: str, python: Path | None, file: Path) -> str:
    """By what a file was checked; `schema` is a name of `CHECKS`, or the list of names in `keys/`.

    Raises BackendRefused.
    """
    version, _ = known_names(schema)
    if python is None:
        return f"names of settings only, by those of {version}"
    # -I: this folder has modules of the names of backends
    command = [str(python), "-I", str(CHECKER), schema, str(file)]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "DISABLE_VERSION_CHECK": "0"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=CHECK_S, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        raise BackendRefused(f"backend: {backend}: {python} took over {CHECK_S} s") from None
    if done.returncode:
        told = done.stderr.strip().splitlines() or ["no message"]
        refused = done.returncode == REFUSED
        what = "its schema refuses this" if refused else f"its check ended with {done.returncode}"
        raise BackendRefused(f"backend_settings: {backend}: {what}: {told[-1]}")
    return f"{backend}'s own schema, in {python.parent.parent}"


def backend_python(name: str) -> Path | None:
    """The Python of a backend's environment, if there is one whose schema can be asked.

    TUTTI_<NAME>_PYTHON, or else in `.venv-backends`; TRL is in the models environment.
    """
    if name not in CHECKS:
        return None
    variable = f"TUTTI_{name.replace('-', '_').upper()}_PYTHON"
    folder = PROJECT if IS_SOURCE else Path.cwd()
    usual = folder / ENVIRONMENTS / name / "bin" / "python"
    python = Path(os.environ.get(variable) or (models_python_path() if name == "trl" else usual))
    return python if python.is_file() else None
