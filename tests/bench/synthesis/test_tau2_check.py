"""Tests of a synthesized domain in tau2's own package: it loads, replays, and gives the expected
rewards."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from bench.synthesis import tau2_check
from bench.synthesis.tau2_check import PYTHON, Tau2Failed, check_with_tau2, example, main
from tutti.tasks.synthesis.domains import changed_task, write_domain_folder, write_tau2_folder


@pytest.fixture
def python() -> Path:
    """Return a Python interpreter that has tau2: TUTTI_TAU2_PYTHON, or the one that `make
    tau2-check` installs."""
    found = Path(os.environ.get("TUTTI_TAU2_PYTHON", PYTHON))
    if not found.exists():
        pytest.skip(f"no tau2 at {found}: `make tau2-check TAU2=CHECKOUT` installs it")
    return found


@pytest.mark.slow
def test_the_example(python: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The domain is loaded from the folder of a set under another name, as the command does it."""
    domain, tasks = asyncio.run(example())
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_domain_folder(tmp_path / name, domain, tasks)
    assert main(["--domain", str(tmp_path), "--name", "desk", "--python", str(python)]) == 0
    made = json.loads(capsys.readouterr().out.splitlines()[-1])["domains"]
    assert list(made) == ["desk", "desk_1"]
    found = made["desk_1"]
    assert (found["tasks"], found["hashes_equal"]) == (3, 3)
    assert (found["golden_rewarded"], found["idle_unrewarded"]) == (3, 3)
    assert found["tools"] == [each.name for each in domain.tools]


@pytest.mark.slow
def test_what_does_not_agree_is_found(python: Path, tmp_path: Path) -> None:
    """The check reports a wrong expected state, golden calls that fail, and a task that is solved
    by doing nothing."""
    domain, (extended, looked_up, _) = asyncio.run(example())
    wrong = changed_task(extended, expected="0" * 64)
    failing = changed_task(
        looked_up,
        actions=(looked_up.world.actions[0].model_copy(update={"arguments": {"name": "X"}}),),
    )
    idle = changed_task(looked_up, communicate=(), template="idle")
    write_tau2_folder(tmp_path, domain, [wrong, failing, idle])
    result = check_with_tau2(tmp_path, "lending", python)
    assert not result.agrees and result.loaded == 3
    seen = {(each["task"], each["not"]) for each in result.differences}
    assert seen == {
        (wrong.task_id, "hashes_equal"),
        (failing.task_id, "hashes_equal"),
        (idle.task_id, "idle_unrewarded"),
    }


@pytest.mark.slow
def test_a_domain_that_cannot_be_loaded(python: Path, tmp_path: Path) -> None:
    """The message quotes tau2's own error."""
    domain, tasks = asyncio.run(example())
    bad = domain.model_copy(update={"toolkit": "import nothing_of_that_name"})
    write_tau2_folder(tmp_path, bad, tasks)
    with pytest.raises(Tau2Failed, match="nothing_of_that_name"):
        check_with_tau2(tmp_path, "lending", python)


def test_without_tau2(tmp_path: Path) -> None:
    """The message names the command that installs tau2."""
    with pytest.raises(Tau2Failed, match="make tau2-check TAU2=CHECKOUT"):
        check_with_tau2(tmp_path, "lending", tmp_path / "python")


def test_a_check_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that does not end is killed at its limit."""
    monkeypatch.setattr(tau2_check, "LIMIT_S", 0.2)
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    with pytest.raises(Tau2Failed, match="took more than"):
        check_with_tau2(tmp_path, "lending", slow)
