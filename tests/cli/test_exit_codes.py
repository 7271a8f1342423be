"""Tests of the exit codes: one convention for every result of every verb, and no code written
elsewhere."""

import ast
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import make_dataclass
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace
from typing import Any

import click
import pytest
import typer
from typer.testing import CliRunner, Result

from tutti import storage
from tutti.cli.base.failures import VERDICTS, code_of, guarded
from tutti.cli.base.verbs import verb
from tutti.cli.judge import arena, contamination
from tutti.cli.main import EXIT_CODES, app
from tutti.cli.sweep import run
from tutti.cli.sweep import run as sweep_run
from tutti.errors import ExitCode
from tutti.flows import generate as generate_flow
from tutti.flows.generate import GenerateResult
from tutti.flows.nightly import nightly
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.scoring.statistics import Word
from tutti.tasks.serving.errors import EngineLost
from tutti.tasks.sweeps import analysis, from_flags, plan
from tutti.tasks.sweeps.analysis import ProgramScores, RescoreResult, Side
from tutti.tasks.sweeps.analysis.arena import ArenaResult
from tutti.tasks.synthesis.teacher import BudgetSpent
from tutti.tasks.synthesis.teacher.faults import Fault, FaultKind, TeacherFailed
from tutti.tasks.training import WallTimeReached

DONE, FAILED, BAD_USAGE, WORSE, INCONCLUSIVE, INCOMPLETE, INTERRUPTED = ExitCode
Patch = Callable[[pytest.MonkeyPatch], None]
Row = make_dataclass("Row", ["verdict", "status", "gate"])
SIDE = Side("a", "sweep", ({"cell_id": "cell:1"},))
READY = """
import sys
from tutti.cli import main

class Input:
    def read(self):
        print("ready", flush=True)
        return stdin.read()

stdin, sys.stdin = sys.stdin, Input()
main.main()
"""
"""Says when the verb reads its input: from then on Ctrl-C ends the verb, and not Python's start."""


def replacing(*names: tuple[Any, str, Any]) -> Patch:
    """Return a patch that replaces functions called by a verb."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        for owner, name, value in names:
            monkeypatch.setattr(owner, name, value, raising=False)

    return patch


def compared(*words: str) -> Patch:
    rows = [Row(word, word, "gate") for word in words]
    return replacing(
        (analysis.Side, "find_pair", lambda *_: (SIDE, SIDE)),
        (analysis, "compare_sides", lambda *_: rows),
        (analysis, "check_gates", lambda *_: rows),
        (analysis, "enter_verdicts", lambda *_: None),
    )


def rated(ratings: Any, failed: Any) -> Patch:
    async def played(*_: Any) -> ArenaResult:
        return ArenaResult("arena:1", (), ratings, "", failed)

    return replacing((arena, "_played", played))


def contaminated(failed: str) -> Patch:
    async def checked(*_: Any) -> list[Any]:
        return [SimpleNamespace(contaminated=False, how=(), failed=failed)]

    return replacing((contamination, "_tasks", lambda *_: []), (contamination, "_checked", checked))


def scored(failed: dict[str, str]) -> Patch:
    async def programs(*_: Any) -> ProgramScores:
        return ProgramScores(1, failed)

    async def rescored(*_: object) -> RescoreResult:
        return RescoreResult(1, failed)

    return replacing((analysis, "score_sweep", rescored), (analysis, "score_programs", programs))


def measured(left: int) -> Patch:
    async def kept(*_: Any) -> Any:
        return SimpleNamespace(words="kept", path=Path("suite"), suite=None, models=Path("models"))

    return replacing(
        (sweep_run, "run_flow", lambda *_: "sweep:1"),
        (plan, "unfinished_cells", lambda *_: left),
        (from_flags, "keep_sweep", kept),
    )


def sought(**policy: Any) -> Patch:
    found = {"policies": [{"concurrency": 4, "sure": True, "whole": True} | policy]}
    return replacing((run, "run_flow", lambda *_: found))


def night(verdict: Word, whole: bool) -> Patch:
    async def ended(*_: Any) -> dict[str, Any]:
        return {"verdict": verdict, "whole": whole}

    return replacing((nightly, "fn", ended))


def generated(*missing: Path) -> Patch:
    async def outputs(*_: Any) -> GenerateResult:
        return GenerateResult(1, missing=list(missing))

    return replacing((generate_flow, "generate_outputs", outputs))


COMPARE, GATE = ("compare", "a", "b"), ("gate", "gates.yaml", "a")
ARENA = ("arena", "a", "b", "--judge", "j")
CONTAMINATION = ("contamination", "gsm8k", "--against", "texts.jsonl")
SCORE, PROGRAMS = ("score", "mine", "--lost"), ("score", "mine", "--from", "labels.jsonl")
RUN = ("run", "gsm8k", "--model", "pocket")
SWEEP, NIGHT = ("sweep", "run", "smoke"), ("sweep", "run", "nightly")
SEARCH = ("sweep", "search", "smoke")
GENERATE = ("generate", "rows.jsonl", "--model", "pocket")
PATHS: list[tuple[tuple[str, ...], Patch, ExitCode]] = [
    (COMPARE, compared("better", "same"), DONE),
    (COMPARE, compared("better", "worse"), WORSE),
    (COMPARE, compared("inconclusive", "worse"), WORSE),
    (COMPARE, compared("inconclusive", "same"), INCONCLUSIVE),
    (GATE, compared("passed"), DONE),
    (GATE, compared("passed", "failed", "inconclusive"), WORSE),
    (GATE, compared("passed", "inconclusive"), INCONCLUSIVE),
    (ARENA, rated({"a": SimpleNamespace(_asdict=dict)}, {}), DONE),
    (ARENA, rated({}, {}), INCONCLUSIVE),
    (ARENA, rated({"a": SimpleNamespace(_asdict=dict)}, {"game": "HTTP 503"}), INCOMPLETE),
    (CONTAMINATION, contaminated(""), DONE),
    (CONTAMINATION, contaminated("HTTP 503"), INCOMPLETE),
    (SCORE, scored({}), DONE),
    (SCORE, scored({"attempt": "HTTP 503"}), INCOMPLETE),
    (PROGRAMS, scored({}), DONE),
    (PROGRAMS, scored({"attempt": "HTTP 503"}), INCOMPLETE),
    (RUN, measured(0), DONE),
    (RUN, measured(2), INCOMPLETE),
    (SWEEP, measured(0), DONE),
    (SWEEP, measured(1), INCOMPLETE),
    (NIGHT, night("better", True), DONE),
    (NIGHT, night("same", True), DONE),
    (NIGHT, night("worse", True), WORSE),
    (NIGHT, night("worse", False), WORSE),
    (NIGHT, night("inconclusive", True), INCONCLUSIVE),
    (NIGHT, night("inconclusive", False), INCOMPLETE),
    (SEARCH, sought(), DONE),
    (SEARCH, sought(sure=False), INCONCLUSIVE),
    (SEARCH, sought(concurrency=None), INCONCLUSIVE),
    (SEARCH, sought(concurrency=None, whole=False), INCOMPLETE),
    (GENERATE, generated(), DONE),
    (GENERATE, generated(Path("output-rs0.jsonl")), INCOMPLETE),
]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create an empty store with one sweep, and the files that the commands name."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("gates.yaml").write_text("gates: [{at_least: 0.5}]")
    for name in ("texts", "labels", "rows"):
        Path(f"{name}.jsonl").write_text('{"text": "x", "question": "x"}\n')
    with storage.open_catalog() as catalog:
        row = {"sweep_id": "sweep:1", "name": "mine", "spec": "{}"}
        catalog.upsert(storage.catalog.sweeps, row | {"created_at": storage.now()})


def tutti(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


@pytest.mark.parametrize(
    ("command", "patch", "code"),
    PATHS,
    ids=[f"{' '.join(c[:2])}-{code.name}" for c, _, code in PATHS],
)
def test_a_verb_ends_with_the_code_of_its_result(
    command: tuple[str, ...], patch: Patch, code: ExitCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch(monkeypatch)
    done = tutti(*command, "--json")
    assert done.exit_code == code, done.output
    quiet = tutti(*command, "--json", "--exit-zero")
    assert (quiet.exit_code, quiet.stdout) == (DONE, done.stdout)


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every verb with its name."""

    def below(words: str, command: Any) -> Iterator[tuple[str, click.Command]]:
        for name, each in getattr(command, "commands", {"": command}).items():
            yield from below(f"{words} {name}".strip(), each) if name else [(words, each)]

    yield from below("", typer.main.get_command(app))


def test_every_verb_that_has_a_result_is_walked_and_says_its_codes() -> None:
    """`--exit-zero` is offered wherever a result has a code, and the help lists the codes."""
    walked = {" ".join(command[: 1 + (command[0] == "sweep")]) for command, _, _ in PATHS}
    offered = {
        words for words, each in commands() if any(p.name == "exit_zero" for p in each.params)
    }
    assert offered == walked
    said = {words: each.help or "" for words, each in commands()}
    for words in offered:
        own = {code for command, _, code in PATHS if " ".join(command).startswith(words)}
        for code in own - {DONE}:
            assert str(int(code)) in said[words], f"{words}: {code!r} is not in its help"
    told = EXIT_CODES.replace(";", "").split()
    assert all(str(int(code)) in told for code in ExitCode)


def test_every_verb_turns_errors_into_their_codes() -> None:
    made = verb(lambda: None).__code__
    loose = {
        words
        for words, each in commands()
        if all(f.__code__ is not made for f in _wrapped(each.callback))  # type: ignore[arg-type]
    }
    assert loose == set()


def _wrapped(function: Callable[..., Any]) -> Iterator[Any]:
    """Yield a function and every function that it wraps."""
    yield function
    if inner := getattr(function, "__wrapped__", None):
        yield from _wrapped(inner)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), INTERRUPTED),
        (WallTimeReached(3), INCOMPLETE),
        (BudgetSpent("the budget of 3 calls is spent"), INCOMPLETE),
        (EngineLost("the engine died"), INCOMPLETE),
        (TeacherFailed.by("q", Fault(FaultKind.CONNECTION, "refused")), INCOMPLETE),
        (TeacherFailed.by("q", Fault(FaultKind.REFUSAL, "I will not")), FAILED),
    ],
)
def test_what_ends_work_before_its_result_has_its_code(
    error: BaseException, code: ExitCode
) -> None:
    def work() -> None:
        raise error

    with pytest.raises(typer.Exit) as ended:
        guarded(work)
    assert ended.value.exit_code == code


def test_every_word_of_a_verdict_has_a_code() -> None:
    from typing import get_args

    assert set(get_args(Word)) | {"passed", "failed"} == set(VERDICTS)
    assert code_of([]) == DONE
    with pytest.raises(KeyError):
        code_of(["fine"])


def test_no_code_is_written_outside_the_enumeration() -> None:
    files = [
        *(PROJECT / "cli").rglob("*.py"),
        *(PROJECT / "tasks" / "training").rglob("__main__.py"),
    ]
    loose = [
        f"{file.relative_to(PROJECT)}:{node.lineno}"
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("typer.Exit", "sys.exit", "SystemExit")
        and any(isinstance(each, ast.Constant) for each in node.args)
    ]
    assert len(files) > 40 and loose == []


def test_ctrl_c_ends_a_verb_with_130(tmp_path: Path) -> None:
    command = [sys.executable, "-c", READY, "sql", "-"]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE) as child:
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
    assert child.returncode == INTERRUPTED and b"interrupted; finished work is kept" in said
