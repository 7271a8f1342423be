"""Tests of programs in an interpreter that the user names: its libraries are available, and the
walls remain."""

import asyncio
import os
import shutil
import sys
import tempfile
import venv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tutti.tasks.sandbox import (
    CODE_PYTHON,
    Sandbox,
    SandboxLimits,
    SandboxUnavailable,
    TalkResult,
    python_for_code,
)
from tutti.tasks.sandbox.walls import LEVELS

LIMITS = SandboxLimits(seconds=20.0)
VISIBLE = "/var/tmp"  # programs have a /tmp of their own
ASKER = "send(b'?'); send(b'!' + receive())"
ANSWERER = "import borrowed, os\nos.write = None\nreceive(); send(borrowed.WORD)"


@pytest.fixture(params=list(LEVELS))
def level(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    try:
        Sandbox(name)
    except SandboxUnavailable as unavailable:
        pytest.skip(str(unavailable))
    return name


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield an environment with one library, whose interpreter is configured."""
    folder = Path(tempfile.mkdtemp(dir=VISIBLE))
    folder.chmod(0o755)
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "borrowed.py").write_text("WORD = b'lent'\n")
    monkeypatch.setenv(CODE_PYTHON, str(folder / "bin" / "python"))
    yield folder
    shutil.rmtree(folder)


def answered(level: str, answerer: str, limits: SandboxLimits) -> TalkResult:
    return asyncio.run(Sandbox(level, LIMITS).talk(ASKER, answerer, limits))


def test_a_program_has_its_libraries(environment: Path, level: str) -> None:
    """Messages are sent even if the program has replaced `os.write`."""
    python = python_for_code()
    assert python is not None and str(environment) in python.folders
    ran = answered(level, ANSWERER, replace(LIMITS, python=python))
    assert ran.word == b"lent", ran.errors


def test_without_it_there_is_the_standard_library_only(environment: Path, level: str) -> None:
    ran = answered(level, ANSWERER, LIMITS)
    assert ran.word is None and "ModuleNotFoundError" in ran.errors


def test_it_is_readable_only_and_nothing_beside_it(environment: Path, level: str) -> None:
    """The environment is read-only, and its neighbours cannot be read."""
    secret = Path(tempfile.mkdtemp(dir=VISIBLE))
    secret.chmod(0o755)
    (secret / "key").write_text("secret")
    code = f"""
import os
receive()
tried = []
for path, mode in (({str(secret / "key")!r}, "r"), ({str(environment / "new")!r}, "w"),
                   ({str(environment / "pyvenv.cfg")!r}, "a"), ("/etc/passwd", "r")):
    try:
        open(path, mode).close()
        tried.append(path)
    except OSError:
        pass
send(repr(tried).encode())
"""
    try:
        ran = answered(level, code, replace(LIMITS, python=python_for_code()))
    finally:
        shutil.rmtree(secret)
    assert ran.word == b"[]", (ran.word, ran.errors)
    assert not (environment / "new").exists()


def test_the_limits_of_a_dialogue_hold(environment: Path, level: str) -> None:
    """The limits are those of the dialogue, not of the sandbox."""
    limits = replace(LIMITS, seconds=1.0, python=python_for_code())
    assert answered(level, "receive()\nwhile True: pass", limits).status == "timeout"


def test_what_is_no_interpreter_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors are raised for a missing file, another program, and an interpreter below a folder that
    is hidden from programs."""
    monkeypatch.delenv(CODE_PYTHON, raising=False)
    assert python_for_code() is None
    for wrong in (str(tmp_path / "python"), "/bin/true", "/bin/ls"):
        monkeypatch.setenv(CODE_PYTHON, wrong)
        with pytest.raises(SandboxUnavailable, match=f"{CODE_PYTHON}={wrong}.*no Python"):
            python_for_code()
    with tempfile.TemporaryDirectory(dir="/tmp") as hidden:
        venv.create(hidden, symlinks=True)
        monkeypatch.setenv(CODE_PYTHON, os.path.join(hidden, "bin", "python"))
        with pytest.raises(SandboxUnavailable, match="cannot see"):
            python_for_code()


def test_an_old_interpreter_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old interpreter cannot run the code around the programs."""
    old = tmp_path / "python"
    old.write_text('#!/bin/sh\necho \'["/usr", "/usr", [3, 8]]\'\n')
    old.chmod(0o755)
    monkeypatch.setenv(CODE_PYTHON, str(old))
    with pytest.raises(SandboxUnavailable, match=r"Python 3\.8; name 3\.9 or later"):
        python_for_code()


@pytest.mark.parametrize("prefix", ["/", str(Path.home())])
def test_an_environment_shows_no_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    """The interpreter's folder is the whole disk or the user's home."""
    wide = tmp_path / "python"
    wide.write_text(f'#!/bin/sh\necho \'["{prefix}", "/usr", [3, 12]]\'\n')
    wide.chmod(0o755)
    monkeypatch.setenv(CODE_PYTHON, str(wide))
    with pytest.raises(SandboxUnavailable, match="would see all of"):
        python_for_code()


def test_the_interpreter_below_tuttis_own_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """This interpreter created the environment; a checkout's own may be below /tmp, which is
    hidden."""
    base = str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
    monkeypatch.setenv(CODE_PYTHON, base)
    python = python_for_code()
    assert python is not None and python.executable == base
