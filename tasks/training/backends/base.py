"""What every backend has, and what its configuration is made from.

Settings of a job that no backend reads are refused, not ignored; those of some backends only are
refused by these.
"""

import difflib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tutti.errors import UsageError
from tutti.tasks.project import PACKAGE
from tutti.tasks.training.job import TrainJob
from tutti.tasks.training.sets.frozen import TrainingSet

KEYS = Path(__file__).parent / "keys"
"""Names of each backend's settings, taken from the backend; the first line says which version."""
LAUNCHER = PACKAGE / "tasks" / "training" / "launch.py"
TOKENISE = "tutti.tasks.training.trainer.tokenise"
OUTPUT = "output"


class BackendRefused(UsageError):
    """A job cannot be trained by a backend as it is; the message names the field."""


@dataclass(frozen=True)
class BackendJob:
    """A job for a backend, and the folder that its configuration is written to."""

    job: TrainJob
    base: Path
    training_set: TrainingSet
    folder: Path
    on_cpu: bool = False
    """Whether it is launched on this machine, without a GPU."""

    @property
    def rows(self) -> int:
        """Rows that are trained on."""
        return count_rows(self.training_set.rows)

    @property
    def epochs(self) -> float:
        """Passes over the data: the job's, or one where it names neither these nor steps."""
        return self.job.epochs or (1.0 if self.job.steps is None else math.inf)

    @property
    def steps(self) -> int:
        """Steps until the job's epochs or steps are over, whichever is first."""
        each = -(-self.rows // self.job.batch.sequences)
        most = math.inf if self.epochs == math.inf else max(1, round(each * self.epochs))
        return int(min(most, self.job.steps or math.inf))

    @property
    def warmup_steps(self) -> int:
        """Steps in which the learning rate rises."""
        return round(self.steps * self.job.optimizer.warmup_share)

    @property
    def max_tokens(self) -> int:
        """Tokens of the longest sequence: the job's, or what the base reads."""
        if self.job.batch.max_tokens is not None:
            return self.job.batch.max_tokens
        config = json.loads((self.base / "config.json").read_text())
        return int(config.get("max_position_embeddings") or 2048)

    @property
    def is_half(self) -> bool:
        """Whether it calculates in bfloat16."""
        return self.job.dtype != "float32"


@dataclass(frozen=True)
class Backend:
    """A trainer of somebody else's."""

    name: str
    configuration: Callable[[BackendJob], dict[str, Any]]
    """Its own settings from a job; nested where its are."""
    write: Callable[[BackendJob, Mapping[str, Any]], tuple[str, str]]
    """(text of its configuration's file, lines of `launch.sh`) for its settings."""
    read_steps: Callable[[Path], list[dict[str, Any]]]
    """Its log in the folder, as rows in the names of `train_steps`."""
    config_file: str
    """What its own schema is asked about, in the folder."""
    data_format: str | None = None
    """The export that it reads; None where it is given ids."""
    runs_here: bool = False
    """Whether tutti launches it itself, in its environment on this machine."""


def settings_of(backend: Backend, plan: BackendJob) -> dict[str, Any]:
    """The backend's settings: those of the job, and `backend_settings` over them.

    Raises BackendRefused for what the backend cannot do.
    """
    job = plan.job
    if job.objective != "sft":
        raise BackendRefused(f"objective: {job.objective} is trained by tutti; {backend.name}: sft")
    if job.minutes is not None:
        raise BackendRefused(f"minutes: {backend.name} ends by `epochs` or `steps`")
    made = backend.configuration(plan)
    for name, value in flat(job.backend_settings):
        set_at(made, name.split("."), value)
    return made


def check_names(backend: str, settings: Mapping[str, Any], schema: str | None = None) -> None:
    """Raises BackendRefused for a setting that the backend's schema does not name.

    `schema`: the list of names in `keys/`, if it is not called as the backend is.
    """
    version, known = known_names(schema or backend)
    tables = {f"{name}." for name, value in flat(settings) if value == {}}
    for name, _ in flat(settings):
        opened = (each[:-1] for each in known if each.endswith(".*"))
        if name in known or any(f"{name}.".startswith(each) for each in opened):
            continue
        if f"{name}." in tables and any(each.startswith(f"{name}.") for each in known):
            continue
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BackendRefused(
            f"backend_settings.{name}: {backend} has no such setting{hint} (names of {version})"
        )


def known_names(backend: str) -> tuple[str, list[str]]:
    """(version, names) of a backend's settings; a name that ends in ``.*`` takes any below it."""
    first, *names = (KEYS / f"{backend}.txt").read_text().splitlines()
    return first.removeprefix("# "), names


def flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Each setting with its dotted name; names may be dotted, and values nested."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def set_at(made: dict[str, Any], names: Sequence[str], value: Any) -> None:
    """Set a value at a path of names, making what is between."""
    for name in names[:-1]:
        made = made.setdefault(name, {})
    made[names[-1]] = value


def count_rows(file: Path) -> int:
    """Rows of a set's file."""
    if file.suffix == ".parquet":
        rows: int = pq.read_metadata(file).num_rows
        return rows
    with file.open(encoding="utf-8") as lines:
        return sum(1 for _ in lines)


def overrides(settings: Mapping[str, Any], prefix: str = "") -> str:
    """Settings as Hydra's overrides, one a line."""
    return "".join(f"{prefix}{name}={json.dumps(value)}\n" for name, value in flat(settings))


def tokenise_command(plan: BackendJob, form: str) -> list[str]:
    """The arguments after a Python that write the set's ids for a backend; `form` names its
    columns."""
    command = ["-P", str(LAUNCHER), TOKENISE, "--base", str(plan.base), "--form", form]
    command += ["--rows", str(plan.training_set.rows), "--out", str(plan.folder / "tokens")]
    longest = plan.job.batch.max_tokens
    return command + (["--max-tokens", str(longest)] if longest else [])


def json_lines(file: Path) -> list[dict[str, Any]]:
    """The JSON objects of a log; an incomplete last line is left out."""
    if not file.is_file():
        return []
    rows = []
    for line in file.read_text(errors="replace").splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break  # still being written
    return rows


def named(row: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The figures of a row by our names: {ours: theirs}; those that are not there are left out."""
    found = {ours: row[theirs] for ours, theirs in names.items() if row.get(theirs) is not None}
    return found | ({"tokens": int(found["tokens"])} if "tokens" in found else {})
