"""An external harness as the agent: one command per sample, whose model calls go to the gateway.

The command's environment has the endpoint (a URL for this attempt only), the model's name and the
task:

* ``OPENAI_BASE_URL``, ``OPENAI_API_BASE``, ``ANTHROPIC_BASE_URL``; ``OPENAI_API_KEY`` and
 ``ANTHROPIC_API_KEY`` = ``none`` (client libraries require a key, the gateway does not)
* ``TUTTI_MODEL``: the name for calls; ``TUTTI_PROGRAM``: the attempt's id; ``TUTTI_SEED``
* ``TUTTI_GATEWAY``: the gateway's URL; ``POST /programs/clock`` there with ``{"program_id": …}``
 returns the attempt's waits so far, in seconds: ``held_s``, ``partner_s``
* ``TUTTI_TASK``: a JSON file, ``{"task_id", "id", "messages", "tools", "max_tokens",
 "temperature", …}`` (``id`` is the item's id in its benchmark; for the other keys see
 `tasks.sweeps.run.attempt`). The command runs in that file's folder, which contains nothing
 else and is deleted afterwards

The answer is the JSON object on the last line of its output (``{"answer": …}``), or else the whole
output. A command that scores itself adds ``score`` to that object (a number; 1 or more is correct
unless ``correct`` says otherwise) and optionally ``scorer``, ``version`` and ``detail``; a
``scorer_error`` (text) instead means that the attempt could not be scored. An exit code other than
0 is an `infra_error`, because the cause is unknown.
"""

import asyncio
import contextlib
import json
import os
import shlex
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti.storage import MOST_MESSAGE, ErrorType, now
from tutti.tasks.agents.commands.command_guard import CommandGuard
from tutti.tasks.agents.commands.shipped import SHIPPED
from tutti.tasks.agents.loop import Stop, Trajectory
from tutti.tasks.agents.models.client import CONNECTION, RETRY, Client
from tutti.tasks.agents.models.model import ModelCallFailed
from tutti.tasks.agents.models.prompts import Score
from tutti.tasks.serving.processes import TOKEN, end_marked
from tutti.tasks.serving.wire import NoAnswer

OUTPUT_BYTES = 1 << 20  # of each stream; the rest is read and discarded
ENDING_S = 5.0
LOOK_S = 1.0  # between two questions how long the attempt has waited
CLOCK = b"/programs/clock"
CLOCK_S, CLOCK_TRIES = 30.0, 3  # of a question that a gateway answers at once
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH", "SSL_CERT_FILE")
"""Variables of our environment that the command gets; it must not see our keys."""


@dataclass(frozen=True)
class Command:
    """The command of each sample and its settings."""

    text: str
    """Split as a shell would; ``{python}`` is this Python, ``{tau2}`` a harness that tutti ships. A
    word that names a file relative to where tutti runs is replaced by its absolute path, because
    the command runs elsewhere."""
    seconds: float = 600.0
    """Working seconds (`WorkingClock`), as far as the gateway knows its waits."""
    guard: CommandGuard | None = None
    """Ends its programs if this process is killed; None: they are ended by this process only."""


@dataclass
class CommandTrajectory(Trajectory):
    """The trajectory of a command, without calls and messages, which the gateway records."""

    imported: Score | None = None


async def run_command(
    command: Command,
    task: Mapping[str, Any],
    url: str,
    model: str,
    program: str,
    seed: int,
) -> CommandTrajectory:
    """Run the command for one attempt; return its trajectory. `url` is the gateway's. An invalid
    score is a `scorer_error`. Raises OSError if the command cannot be started."""
    trajectory, started = CommandTrajectory(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tutti-command-") as folder:
        file = Path(folder) / "task.json"
        file.write_text(json.dumps(task))
        environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        own = f"{url}/p/{program}"
        environment |= dict.fromkeys(("OPENAI_BASE_URL", "OPENAI_API_BASE"), f"{own}/v1")
        environment |= dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY"), "none")
        environment |= {"ANTHROPIC_BASE_URL": own, "TUTTI_MODEL": model, "TUTTI_GATEWAY": url}
        environment |= {"TUTTI_PROGRAM": program, "TUTTI_TASK": str(file), "TUTTI_SEED": str(seed)}
        try:
            code, out, err = await _run(command, environment, folder)
        except ModelCallFailed as error:
            trajectory.fail("infra_error", error.error_type, str(error))
            trajectory.stop_reason, trajectory.http_status = Stop.MODEL_CALL_FAILED, error.status
    trajectory.ended_at = now()
    trajectory.seconds = time.monotonic() - started
    if trajectory.status == "infra_error":
        return trajectory
    if code is None:
        trajectory.status, trajectory.stop_reason = "limit", Stop.TIME
    elif code:
        trajectory.stop_reason = f"exit code {code}"
        text = (err or out).strip()[-MOST_MESSAGE:]  # the important part is printed last
        trajectory.fail("infra_error", ErrorType.COMMAND_FAILED, text)
    else:
        _take_result(trajectory, out)
    return trajectory


def _words(text: str) -> Iterator[str]:
    for word in shlex.split(text):
        if word in SHIPPED:
            yield from SHIPPED[word].words
        elif word == "{python}":
            yield sys.executable
        else:
            # Not resolved: a virtual environment's Python is a link, and works only by its name.
            yield os.path.abspath(word) if os.path.isfile(word) else word


async def _run(
    command: Command, environment: Mapping[str, str], folder: str
) -> tuple[int | None, str, str]:
    """Return exit code (None: timed out) and output; no process outlives the call."""
    mark = uuid.uuid4().hex
    process = await asyncio.create_subprocess_exec(
        *_words(command.text),
        cwd=folder,
        env={**environment, TOKEN: mark},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # so that all its child processes can be ended with it
    )
    assert process.stdout is not None and process.stderr is not None
    reading = asyncio.gather(_read(process.stdout), _read(process.stderr))
    try:
        if command.guard is not None:
            command.guard.started(process.pid)
        code = await _exit_code(process, command.seconds, environment)
    except (asyncio.CancelledError, ModelCallFailed):
        reading.cancel()  # a process that left the session may hold the pipes open forever
        await asyncio.gather(reading, return_exceptions=True)
        raise
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.to_thread(end_marked, mark)
        with contextlib.suppress(TimeoutError):  # asyncio waits for the pipes' other ends, too
            async with asyncio.timeout(ENDING_S):
                await process.wait()
        if command.guard is not None:
            command.guard.ended(process.pid)
    try:
        async with asyncio.timeout(ENDING_S):
            out, err = await reading
    except TimeoutError:  # a process that left the session holds the pipe open
        return code, "", "its output could not be read to the end"
    return code, out, err


async def _exit_code(
    process: asyncio.subprocess.Process, seconds: float, environment: Mapping[str, str]
) -> int | None:
    started, left_s = time.monotonic(), seconds
    while left_s > 0:
        try:
            async with asyncio.timeout(max(left_s, LOOK_S)):
                return await process.wait()
        except TimeoutError:
            waited_s = await _waited_s(environment["TUTTI_GATEWAY"], environment["TUTTI_PROGRAM"])
            left_s = seconds + waited_s - (time.monotonic() - started)
    return None


async def _waited_s(url: str, program: str) -> float:
    """What a program waited so far, by its gateway. Raises ModelCallFailed if the gateway does not
    say it, in `CLOCK_TRIES` of `CLOCK_S` each: an older figure would take waits for work. And if
    all its calls have failed for as long as tutti's own agent would try one again."""
    body = json.dumps({"program_id": program}).encode()
    for left in reversed(range(CLOCK_TRIES)):
        try:
            async with asyncio.timeout(CLOCK_S), Client(url) as client:
                clock: dict[str, float] = json.loads((await client.post(CLOCK, [], body)).body)
            waited_s, failing_s = clock["held_s"] + clock["partner_s"], clock["failing_s"]
            break
        except (NoAnswer, TimeoutError, ValueError, KeyError, TypeError) as error:
            if not left:
                text = f"the gateway does not say what the attempt waited: {error!r}"
                raise ModelCallFailed(text, CONNECTION) from error
            await asyncio.sleep(LOOK_S)
    if failing_s > RETRY.deadline_s:
        text = f"its calls have failed for {failing_s:.0f} s, and it goes on"
        raise ModelCallFailed(text, CONNECTION)
    return waited_s


async def _read(stream: asyncio.StreamReader) -> str:
    kept = bytearray()
    while piece := await stream.read(1 << 16):
        kept += piece[: max(0, OUTPUT_BYTES - len(kept))]
    return kept.decode(errors="replace")


def _take_result(trajectory: CommandTrajectory, out: str) -> None:
    text = out.strip()
    result: dict[str, Any] = {"answer": text or None}
    with contextlib.suppress(ValueError, RecursionError):
        last = json.loads(text.rpartition("\n")[2])
        if isinstance(last, dict) and "answer" in last:
            result = last
    answer = result["answer"]
    if answer is not None:
        trajectory.answer = answer if isinstance(answer, str) else json.dumps(answer)
    if result.get("scorer_error") is not None:
        trajectory.stop_reason = Stop.ANSWERED
        text = f"the harness: {result['scorer_error']}"
        trajectory.fail("scorer_error", ErrorType.SCORER_FAILED, text)
        return
    try:
        trajectory.imported = _score(result)
    except ValueError as error:
        trajectory.stop_reason = Stop.ANSWERED
        trajectory.fail("scorer_error", ErrorType.INVALID_SCORE, f"the harness's {error}")
        return
    # A final state can be scored even without an answer.
    found = trajectory.answer is not None or trajectory.imported is not None
    trajectory.status = "ok" if found else "model_error"
    trajectory.stop_reason = Stop.ANSWERED if found else Stop.NO_ANSWER


def _score(result: Mapping[str, Any]) -> Score | None:
    """The harness's own score; None if there is none. Raises ValueError with field and value."""
    value, detail = result.get("score"), result.get("detail", {})
    if value is None:
        return None
    # Also true of NaN; a JSON number of 400 digits does not fit a float.
    if not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"score is not a number: {value!r}")
    correct = result.get("correct", value >= 1)
    if not isinstance(correct, bool):
        raise ValueError(f"correct is not true or false: {correct!r}")
    if not isinstance(detail, dict):
        raise ValueError(f"detail is not an object: {detail!r}")
    scorer, version = str(result.get("scorer", "harness")), str(result.get("version", ""))
    return Score(scorer, version, float(value), correct, detail=detail)
