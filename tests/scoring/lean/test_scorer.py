"""Tests of both rules from message to score, with a fake of Lean in the sandbox."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tutti.tasks.sandbox import NoSandbox, Sandbox
from tutti.tasks.scoring import SCORERS, Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.lean.compiler import LEAN_INSTALL, lean_set_up, time_limit

TARGET = {"header": "import Mathlib\n\n", "statement": "theorem easy : 1 + 1 = 2 := by\n"}
pytestmark = pytest.mark.usefixtures("stand_in")


def answer(proof: str) -> str:
    return f"A plan.\n```lean4\ntheorem easy : 1 + 1 = 2 := by\n  {proof}\n```\n"


async def scored(sandbox: Any, rule: str, text: str, target: dict[str, str] | None = None) -> Score:
    submission = Submission(None, text)
    resources = ScoringResources(sandbox=sandbox)
    return await SCORERS[rule].score(target or TARGET, submission, resources)


@pytest.mark.parametrize(
    ("proof", "published", "strict"),
    [
        ("rfl", "completed", "completed"),
        ("wrong", "failed", "failed"),
        ("sorry", "has_sorry", "has_sorry"),
        ("other assumption", "completed", "axioms"),
        ("leave", "completed", "unchecked"),  # it ends Lean before our check
        ("rfl\naxiom cheat : False", "completed", "refused"),
        ("native_decide", "completed", "refused"),
        ("write", "failed", "failed"),  # nothing can be written outside
    ],
)
async def test_both_rules(walled: Sandbox, proof: str, published: str, strict: str) -> None:
    """The published rule uses Lean's exit status; ours checks the axioms."""
    for rule, status in (("lean4", published), ("lean4_strict", strict)):
        score = await scored(walled, rule, answer(proof))
        assert score.detail["status"] == status
        assert score.correct is (status == "completed") and score.value == float(score.correct)
        if status != "refused":
            assert score.detail["lean"] == "Lean (version 4.12.0, stand-in)"


async def test_lean_sees_little(walled: Sandbox) -> None:
    """Lean sees only its own process in /proc, none of the machine's files and nothing of our
    environment."""
    score = await scored(walled, "lean4", answer("look"))
    assert "sees [True, False, False]" in score.detail["why"]
    assert "TUTTI" not in score.detail["why"]


async def test_a_time_out_is_wrong(walled: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUTTI_LEAN_TIMEOUT_S", "1")
    monkeypatch.setattr("tutti.tasks.scoring.lean.compiler._START_S", 1.0)
    for rule in ("lean4", "lean4_strict"):
        score = await scored(walled, rule, answer("spin"))
        assert score.correct is False and score.detail["status"] == "timeout"
        assert score.detail["limit_s"] == 1.0


async def test_a_header_that_does_not_compile_is_no_wrong_answer(walled: Sandbox) -> None:
    """Without Mathlib no proof can be correct, which is a fault of the installation."""
    target = TARGET | {"header": "import Missing\n"}
    for rule in ("lean4", "lean4_strict"):
        with pytest.raises(ScorerFailed, match=r"header alone: .*unknown module prefix"):
            await scored(walled, rule, answer("rfl"), target)


async def test_without_walls_lean_does_not_run() -> None:
    """At level "limits" a program cannot be started; without a sandbox the reason is shown."""
    with pytest.raises(ScorerFailed, match="no walls here"):
        await scored(NoSandbox("no walls here"), "lean4", answer("rfl"), TARGET | {"header": "--x"})
    with pytest.raises(ScorerFailed, match="needs a sandbox"):
        await scored(None, "lean4_strict", answer("rfl"))
    with pytest.raises(
        ScorerFailed, match=r"could not be started .* \(it needs a level with walls"
    ):
        await scored(Sandbox("limits"), "lean4", answer("rfl"), TARGET | {"header": "--y"})


async def test_a_target_without_a_theorem(walled: Sandbox) -> None:
    with pytest.raises(ScorerFailed, match="no theorem"):
        await scored(walled, "lean4", answer("rfl"), TARGET | {"statement": "1 = 1"})


def test_without_lean_the_message_has_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cases are no setting, no folder, no program, no limit, and a folder that the sandbox
    hides."""
    monkeypatch.setenv("TUTTI_LEAN_TIMEOUT_S", "soon")
    with pytest.raises(ScorerFailed, match="TUTTI_LEAN_TIMEOUT_S=soon"):
        time_limit(30.0)
    monkeypatch.setenv("TUTTI_LEAN_COMMAND", "/nowhere/lean")
    with pytest.raises(ScorerFailed, match="TUTTI_LEAN_COMMAND=/nowhere/lean: no such program"):
        lean_set_up()
    monkeypatch.delenv("TUTTI_LEAN_COMMAND")
    with pytest.raises(ScorerFailed) as told:
        lean_set_up()
    assert LEAN_INSTALL in str(told.value) and "lake exe cache get" in LEAN_INSTALL
    monkeypatch.setenv("TUTTI_LEAN_PROJECT", "/nowhere")
    with pytest.raises(ScorerFailed, match="TUTTI_LEAN_PROJECT=/nowhere: is no folder"):
        lean_set_up()


def test_a_lake_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`lake env` returns the paths of Lean and the libraries; a folder below /tmp is refused."""
    home, project, programs = tmp_path / "lean", tmp_path / "project", tmp_path / "bin"
    for folder in (home / "bin", project, programs):
        folder.mkdir(parents=True)
    lake = f"""#!/bin/sh
[ "$*" = "env printenv" ] && [ "$PWD" = {project} ] || exit 3
echo LEAN_SYSROOT={home}
echo LEAN_PATH={project}/.lake/packages/mathlib:{project}
"""
    for path, text in (
        (programs / "lake", lake),
        (home / "bin" / "lean", "#!/bin/sh\necho 'Lean (version 4.12.0, x)'\n"),
    ):
        path.write_text(text)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("TUTTI_LEAN_PROJECT", str(project))
    monkeypatch.delenv("TUTTI_LEAN_COMMAND")
    monkeypatch.setattr("tutti.tasks.scoring.lean.compiler._HIDDEN", ())
    found = lean_set_up()
    assert found.command == (str(home / "bin" / "lean"),)
    assert found.folders == tuple(sorted([str(home), str(project)], key=len))
    assert found.environment["LEAN_PATH"].endswith(f"mathlib:{project}")
    assert found.version == "Lean (version 4.12.0, x)"
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setenv("TUTTI_LEAN_PROJECT", str(other))
    with pytest.raises(ScorerFailed, match=r"`lake env printenv` in .*other failed"):
        lean_set_up()
    monkeypatch.setattr("tutti.tasks.scoring.lean.compiler._HIDDEN", (str(tmp_path),))
    (tmp_path / "project2").mkdir()
    monkeypatch.setenv("TUTTI_LEAN_PROJECT", str(tmp_path / "project2"))
    monkeypatch.setenv("TUTTI_LEAN_COMMAND", f"{sys.executable} -c pass")
    with pytest.raises(ScorerFailed, match=r"cannot show .*project2 to programs; move it"):
        lean_set_up()
