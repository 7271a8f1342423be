"""Tests of the error tree: every error of ours, its exit code, and its output on the command
line."""

import ast
import errno
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
import typer
from pydantic import BaseModel, ValidationError

from tutti.cli.base.failures import exit_code_of, guarded
from tutti.errors import TuttiError, UsageError
from tutti.storage import StoreError
from tutti.storage.base.errors import CatalogMissing, StoreBusy
from tutti.tasks.agents.models.model import ContextExceeded, ModelCallFailed
from tutti.tasks.agents.orchestrator import AgentFileError
from tutti.tasks.agents.tools import ToolUnavailable
from tutti.tasks.benchmarks import BadRow, BenchmarkError, SourceMissing
from tutti.tasks.benchmarks.errors import UnknownBenchmark
from tutti.tasks.platform.gpus import GpuError, GpuLost, GpusBusy, NoSuchGpu
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.retrieval.errors import RetrievalError
from tutti.tasks.sandbox import SandboxUnavailable
from tutti.tasks.scoring.rules.score import ScorerFailed
from tutti.tasks.serving import PriceError, RegistryError, ServingError, WeightsError
from tutti.tasks.serving.errors import EngineLost
from tutti.tasks.serving.gateway.calls.access import AccessError
from tutti.tasks.serving.simulation import SimulationError
from tutti.tasks.sweeps import GateError, SuiteError
from tutti.tasks.synthesis.domains import ToolkitFailed
from tutti.tasks.synthesis.making.by_program import SetUnfinished
from tutti.tasks.synthesis.teacher import BudgetSpent, TeacherFailed
from tutti.tasks.synthesis.teacher.faults import TeacherLost
from tutti.tasks.task_sets import NothingMade
from tutti.tasks.training import JobError, TrainingFailed, WallTimeReached
from tutti.tasks.training.jobs.rewards import RewardError

INVALID_INPUT = (
    *(UsageError, RegistryError, WeightsError, PriceError, AccessError, SimulationError),
    *(SuiteError, GateError, BenchmarkError, UnknownBenchmark, AgentFileError, JobError, NoSuchGpu),
)
FAILURES = (
    *(TuttiError, StoreError, StoreBusy, CatalogMissing, ServingError, SourceMissing),
    *(ModelCallFailed, ContextExceeded, ToolUnavailable, SandboxUnavailable, ScorerFailed),
    *(ToolkitFailed, TeacherFailed, NothingMade),
    *(RetrievalError, TrainingFailed, RewardError, GpuError, GpusBusy),
)
RUN_AGAIN = (EngineLost, GpuLost, SetUnfinished, TeacherLost, BudgetSpent)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        *((kind, 2) for kind in INVALID_INPUT),
        *((kind, 1) for kind in FAILURES),
        *((kind, 5) for kind in RUN_AGAIN),
    ],
)
def test_each_root_carries_its_exit_code(
    kind: type[TuttiError], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error is one line on stderr with the code of its own class."""

    def fail() -> None:
        raise kind("what happened")

    with pytest.raises(typer.Exit) as left:
        guarded(fail)
    assert left.value.exit_code == code == kind.exit_code
    assert capsys.readouterr().err == "tutti: what happened\n"


def test_a_full_disk_is_no_bug(capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the file and says what to do; another OSError keeps its traceback."""

    def fail() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "out/rows.jsonl")

    with pytest.raises(typer.Exit) as left:
        guarded(fail)
    assert left.value.exit_code == 1
    assert capsys.readouterr().err.startswith("tutti: out/rows.jsonl: no space left on the device.")
    assert exit_code_of(OSError(errno.EIO, "Input/output error")) is None


def test_a_bad_row_is_a_failure_although_a_benchmark_error_is_bad_usage() -> None:
    assert exit_code_of(BadRow(Path("test.jsonl"), 3, "answer", "missing")) == 1


def test_errors_of_libraries_and_bugs() -> None:
    """Invalid SQL and invalid fields are usage errors; a bug keeps its traceback."""

    class Fields(BaseModel):
        limit: int

    with pytest.raises(ValidationError) as invalid:
        Fields.model_validate({"limit": "many"})
    assert exit_code_of(invalid.value) == 2
    assert exit_code_of(duckdb.ParserException("select")) == 2
    assert exit_code_of(duckdb.IOException("no such file")) == 1
    assert exit_code_of(ValueError("a bug")) is None

    def look_up() -> str:
        return {"known": "value"}["unknown"]

    with pytest.raises(KeyError):
        guarded(look_up)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    """Each line's exit code is its class's; each class below the root with a code is listed."""
    import tutti.errors

    drawn = dict(
        (words[0], int(words[1]))
        for line in (tutti.errors.__doc__ or "").splitlines()
        if len(words := line.lstrip("│├└─ ").split()) > 1 and words[1] in ("1", "2", "5")
    )
    every = (*INVALID_INPUT, *FAILURES, *RUN_AGAIN, WallTimeReached)
    known = {kind.__name__: kind.exit_code for kind in (*every, BadRow)}
    assert drawn == {name: code for name, code in known.items() if name in drawn}
    assert {kind.__name__ for kind in TuttiError.__subclasses__()} <= set(drawn)


def test_every_error_of_a_stage_has_the_root() -> None:
    """A public class in a module `errors.py` derives from another one there, or from TuttiError."""
    loose = [
        f"{path.relative_to(PROJECT)}: {node.name}"
        for path in _error_modules()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
        and {ast.unparse(base) for base in node.bases} & {"Exception", "RuntimeError", "ValueError"}
        and "TuttiError" not in {ast.unparse(base) for base in node.bases}
    ]
    assert not loose


def _error_modules() -> Iterator[Path]:
    for package in ("storage", "tasks"):
        yield from (PROJECT / package).rglob("errors.py")


def test_the_root_needs_no_other_module() -> None:
    """The models environment has neither pydantic nor SQLAlchemy."""
    code = (
        "import sys, typing; before = set(sys.modules); import tutti.errors; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    found = {name.partition(".")[0] for name in done.stdout.split()}
    assert found - sys.stdlib_module_names == {"tutti"}
    ours = [name for name in done.stdout.split() if name.startswith("tutti")]
    assert ours == ["tutti", "tutti.errors", "tutti.face"]
