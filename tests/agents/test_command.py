"""Tests of a command as the agent: its environment, the meaning of its output, and its
termination."""

import asyncio
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.serving.gateway.raw_engine import ReceivedRequest, Wire, answering, raw_engine, whole
from tutti.tasks.agents.commands.command import Command, CommandTrajectory, run_command
from tutti.tasks.agents.commands.command_guard import CommandGuard
from tutti.tasks.agents.models.client import RETRY
from tutti.tasks.scoring import Score

TASK: dict[str, Any] = {
    "task_id": "task:1",
    "messages": [{"role": "user", "content": "q"}],
    "tools": [],
}


def play(program: str, seconds: float = 20.0) -> CommandTrajectory:
    """Run a Python program as the harness."""
    return run(Command(f"{{python}} -c {shlex.quote(program)}", seconds))


def run(command: Command) -> CommandTrajectory:
    """Run the harness on the task."""
    return asyncio.run(run_command(command, TASK, "http://127.0.0.1:9", "m", "a1", 7))


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        ('print("42")', "42"),
        ('print("so"); print("it is 42")', "so\nit is 42"),
        ('print("so"); import json; print(json.dumps({"answer": "42"}))', "42"),
        ('import json; print(json.dumps({"answer": [1]}))', "[1]"),
    ],
)
def test_the_answer_is_the_last_lines_or_all(program: str, answer: str) -> None:
    trajectory = play(program)
    assert (trajectory.status, trajectory.stop_reason, trajectory.answer) == (
        "ok",
        "answered",
        answer,
    )


@pytest.mark.parametrize("program", ["pass", 'import json; print(json.dumps({"answer": None}))'])
def test_no_output_is_no_answer(program: str) -> None:
    """Empty output with exit status 0 counts as the model's failure."""
    trajectory = play(program)
    assert (trajectory.status, trajectory.stop_reason) == ("model_error", "no_answer")


def result(said: str) -> CommandTrajectory:
    """Return the trajectory of a harness whose last line is `said`."""
    return play(f"print({json.dumps(said)})")


def test_a_score_of_the_harness_is_taken() -> None:
    """The score has its name, version and reasons; no answer is required then."""
    said = {"answer": "42", "score": 0.5, "scorer": "theirs", "version": "2", "detail": {"why": 1}}
    trajectory = result(json.dumps(said))
    assert trajectory.imported == Score("theirs", "2", 0.5, False, detail={"why": 1})
    assert (trajectory.status, trajectory.answer) == ("ok", "42")
    trajectory = result('{"answer": null, "score": true}')
    assert trajectory.imported == Score("harness", "", 1.0, True)
    assert (trajectory.status, trajectory.answer) == ("ok", None)
    assert result('{"answer": "42", "score": 0.5, "correct": true}').imported == Score(
        "harness", "", 0.5, True
    )
    assert result('{"answer": "42", "score": null}').imported is None
    assert result('{"score": 1.0}').answer == '{"score": 1.0}', "no answer, no result: all is text"


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("score", {"score": "high"}),
        ("score", {"score": float("nan")}),
        ("score", {"score": 10**400}),
        ("correct", {"score": 1, "correct": "yes"}),
        ("detail", {"score": 1, "detail": "because"}),
    ],
)
def test_a_score_that_is_none_is_no_wrong_answer(field: str, said: dict[str, Any]) -> None:
    """An invalid score is a scorer error, and the harness's output is kept."""
    trajectory = result(json.dumps({"answer": "42"} | said))
    assert (trajectory.status, trajectory.answer) == ("scorer_error", "42")
    assert trajectory.imported is None
    assert trajectory.error_type == "invalid_score"
    assert f"harness's {field} is" in str(trajectory.error_message)


def test_files_are_named_as_seen_from_where_tutti_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command itself runs in a folder of its own that contains only its task."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.py").write_text("import os, sys; print(sys.argv[1:], os.listdir())")
    (tmp_path / "folder").mkdir()
    command = Command("{python} agent.py agent.py folder other.py")
    trajectory = asyncio.run(run_command(command, TASK, "http://127.0.0.1:9", "m", "a1", 7))
    own = str(tmp_path / "agent.py")
    assert trajectory.answer == f"['{own}', 'folder', 'other.py'] ['task.json']"


def test_it_is_told_where_to_call_and_nothing_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The base URL names the program, and no other environment variable of the sweep is passed."""
    monkeypatch.setenv("MY_API_KEY", "secret")
    program = (
        "import os, json; e = os.environ; print(json.dumps({"
        '"answer": [e["OPENAI_BASE_URL"], e["TUTTI_MODEL"], e["TUTTI_SEED"], "MY_API_KEY" in e, '
        'json.load(open(e["TUTTI_TASK"]))["task_id"]]}))'
    )
    assert play(program).answer == '["http://127.0.0.1:9/p/a1/v1", "m", "7", false, "task:1"]'


def test_a_failure_is_an_infra_error_with_its_last_words() -> None:
    """The error quotes the last line of output and does not count as a wrong answer."""
    trajectory = play('import sys; sys.exit("no such model")')
    assert (trajectory.status, trajectory.stop_reason) == ("infra_error", "exit code 1")
    assert trajectory.error_type == "command_failed"
    assert trajectory.error_message == "no such model"


async def play_before(
    program: str, seconds: float, monkeypatch: pytest.MonkeyPatch, **clock: float
) -> CommandTrajectory:
    """Run a Python program as the harness; the gateway reports the waits in `clock`."""
    monkeypatch.setattr("tutti.tasks.agents.commands.command.LOOK_S", 0.05)
    async with raw_engine() as gateway:
        told = {"held_s": 0.0, "partner_s": 0.0, "failing_s": 0.0} | clock
        gateway.reply = answering(whole(told))
        command = Command(f"{{python}} -c {shlex.quote(program)}", seconds)
        done = await run_command(command, TASK, gateway.url, "m", "a1", 7)
        assert (gateway.asked[0].path, gateway.asked[0].json()) == (
            "/programs/clock",
            {"program_id": "a1"},
        )
        return done


@pytest.mark.parametrize("clock", [{"held_s": 600.0}, {"partner_s": 600.0}])
async def test_what_the_gateway_knows_as_waits_is_no_time_of_the_harness(
    monkeypatch: pytest.MonkeyPatch, clock: dict[str, float]
) -> None:
    """The harness's time limit is extended by these waits."""
    program = "import time; time.sleep(0.5); print(42)"
    done = await play_before(program, 0.1, monkeypatch, **clock)
    assert (done.status, done.answer) == ("ok", "42")


async def test_a_harness_whose_calls_fail_for_long_is_ended_as_infrastructure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The harness would otherwise wait forever without doing work."""
    waits = {"held_s": 5000.0, "failing_s": RETRY.deadline_s + 1}
    done = await play_before("import time; time.sleep(600)", 0.1, monkeypatch, **waits)
    assert (done.status, done.stop_reason) == ("infra_error", "ModelCallFailed")
    assert done.error_message == "its calls have failed for 901 s, and it goes on"


def test_a_gateway_that_does_not_answer_makes_no_time_limit() -> None:
    """The waiting time of the attempt is unknown then, and unknown is not zero."""
    done = play("import time; time.sleep(600)", seconds=0.2)
    assert (done.status, done.error_type) == ("infra_error", "connection")


@pytest.mark.parametrize("silent", [2, 3])
async def test_a_gateway_that_is_silent_is_asked_three_times(
    monkeypatch: pytest.MonkeyPatch, silent: int
) -> None:
    """Each request waits up to its timeout; then the attempt ends as infrastructure."""
    monkeypatch.setattr("tutti.tasks.agents.commands.command.LOOK_S", 0.05)
    monkeypatch.setattr("tutti.tasks.agents.commands.command.CLOCK_S", 0.5)
    async with raw_engine() as gateway:
        told = whole({"held_s": 6000.0, "partner_s": 0.0, "failing_s": 0.0})

        async def reply(asked: ReceivedRequest, wire: Wire) -> None:
            if len(gateway.asked) <= silent:
                await wire.gone()
            else:
                await answering(told)(asked, wire)

        gateway.reply = reply
        program = f"import time; time.sleep({5 if silent < 3 else 600}); print(42)"
        command = Command(f"{{python}} -c {shlex.quote(program)}", 0.2)
        done = await run_command(command, TASK, gateway.url, "m", "a1", 7)
    assert len(gateway.asked) == 3
    if silent < 3:
        assert (done.status, done.answer) == ("ok", "42")
    else:
        assert (done.status, done.error_type) == ("infra_error", "connection")
        assert "does not say what the attempt waited: TimeoutError" in str(done.error_message)


@pytest.mark.parametrize("leaves", [False, True])
async def test_what_takes_too_long_is_ended_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaves: bool
) -> None:
    """Child processes are killed too, even if they run for minutes or leave the session."""
    pid = tmp_path / "pid"
    program = (
        "import subprocess, sys, time; "
        f'p = subprocess.Popen(["sleep", "600"], start_new_session={leaves}); '
        f'open("{pid}", "w").write(str(p.pid)); time.sleep(600)'
    )
    trajectory = await play_before(program, 1.0, monkeypatch)
    assert (trajectory.status, trajectory.stop_reason) == ("limit", "time")
    child = int(pid.read_text())
    soon(lambda: not is_running(child), 60)


def test_a_flood_of_output_is_cut() -> None:
    """Further output is read and discarded, so that the command does not block."""
    trajectory = play('print("x" * 5_000_000)')
    assert trajectory.answer is not None and len(trajectory.answer) == 1 << 20


def test_what_could_not_be_scored_is_told() -> None:
    """A scoring failure reported by a harness that scores itself does not count as a wrong
    answer."""
    trajectory = result('{"answer": "42", "scorer_error": "the judge said nothing"}')
    assert (trajectory.status, trajectory.imported) == ("scorer_error", None)
    assert trajectory.error_message == "the harness: the judge said nothing"
    assert trajectory.answer == "42"


def test_a_harness_of_tuttis_is_started_by_its_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keyword is replaced by the harness's Python interpreter and program."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$(basename "$1") $2"\n')
    python.chmod(0o755)
    monkeypatch.setenv("TUTTI_HARNESS_TAU2", str(python))
    trajectory = asyncio.run(
        run_command(Command("{tau2} --max-steps"), TASK, "http://127.0.0.1:9", "m", "a1", 7)
    )
    assert trajectory.answer == "tau2_episode.py --max-steps"


OWNER = """
import asyncio, sys
from tutti.tasks.agents.commands.command import Command, run_command
from tutti.tasks.agents.commands.command_guard import CommandGuard

async def main():
    program = "import os, subprocess, time; subprocess.Popen(['sleep', '600']); " \\
        f"open({sys.argv[1]!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with CommandGuard() as guard:
        command = Command(f"{{python}} -c {__import__('shlex').quote(program)}", 600.0, guard)
        await run_command(command, {}, "http://127.0.0.1:9", "m", "a1", 7)

asyncio.run(main())
"""


def test_programs_end_when_their_owner_is_killed(tmp_path: Path) -> None:
    """SIGKILL of a sweep leaves no program of its harness and no child of it running; the guard
    process ends, too."""
    told = tmp_path / "pid"
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(told)])
    try:
        group = soon(lambda: int(told.read_text() or 0) if told.exists() else 0, 60)
        left = psutil.Process(owner.pid).children(recursive=True)
        assert len(left) >= 3, "the guard, the program, and what it started"
        assert any(process.pid == group for process in left)
    finally:
        owner.kill()
        owner.wait()
    _, alive = psutil.wait_procs(left, timeout=60)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def test_a_guard_ends_what_was_told_and_has_not_ended() -> None:
    """A process group that has already ended is not signalled, because its number may have been
    reused."""
    with CommandGuard() as guard:
        kept = subprocess.Popen(["sleep", "600"], start_new_session=True)
        doomed = subprocess.Popen(["sleep", "600"], start_new_session=True)
        guard.started(kept.pid)
        guard.started(doomed.pid)
        guard.ended(kept.pid)
    try:
        assert doomed.wait(60) == -9 and kept.poll() is None
    finally:
        kept.kill()
        kept.wait()


def is_running(pid: int) -> bool:
    """Return whether a process runs; a zombie does not count."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def soon(found: Callable[[], int], seconds: float) -> int:
    """Poll `found` and return its first nonzero result."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if value := found():
            return value
        time.sleep(0.05)
    raise AssertionError("not in time")
