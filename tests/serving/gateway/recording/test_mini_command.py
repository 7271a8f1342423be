"""Tests of the command `mini` through the gateway: its attempt, and the trajectory that it saved
itself.

Its Python is that of the agent libraries; without it, the test is skipped.
"""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.serving.conftest import MakeBench
from tests.serving.engine_double import completion
from tests.serving.gateway.recording.test_agent_libraries import AGENT_TIMEOUT_S, OFFLINE, bash
from tutti.tasks.exchange import IMPORTERS, ImportedAttempt, detect
from tutti.tasks.platform.project import PROJECT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

COMMANDS = (
    "cat numbers.txt",
    "paste -sd+ numbers.txt | sed 's/.*/echo $((&))/' | sh > answer.txt",
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat answer.txt",
)
SETTINGS = {"MSWEA_CONFIGURED": "true", "MSWEA_COST_TRACKING": "ignore_errors"}
SETTINGS |= {"MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1", "OPENAI_API_KEY": "none"}


@pytest.fixture
def python() -> Path:
    """Return the Python that has mini-swe-agent; skip the test if there is none."""
    usual = PROJECT / ".venv-harnesses" / "agents" / "bin" / "python"
    path = Path(os.environ.get("TUTTI_HARNESS_AGENTS", usual))
    if not path.is_file():
        pytest.skip("the agent libraries are not installed: `make harnesses`")
    return path


def scripted(commands: Iterator[str]) -> Any:

    async def reply(_: web.Request, __: Any) -> web.StreamResponse:
        body = completion("Let me see.")
        call = bash("c1", next(commands))
        function = {"name": call.name, "arguments": call.text}
        asked = {"id": call.id, "type": "function", "function": function}
        body["choices"][0]["message"]["tool_calls"] = [asked]
        return web.json_response(body)

    return reply


def run_mini(python: Path, url: str, work: Path) -> Path:
    """Run the command in a folder and return the trajectory that it saved."""
    (work / "numbers.txt").write_text("1\n2\n39\n")
    saved = work / "sum-1.traj.json"
    command = [str(python), "-m", "minisweagent.run.mini", "-m", "openai/m", "-c", "mini.yaml"]
    command += ["-c", f"model.model_kwargs.api_base={url}/p/sum-1/v1", "-t", "Sum numbers.txt"]
    done = subprocess.run(
        [*command, "-y", "--exit-immediately", "-o", str(saved)],
        cwd=work,
        env={"PATH": os.environ["PATH"], "HOME": str(work), **OFFLINE, **SETTINGS},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=AGENT_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return saved


async def test_the_store_and_the_agents_own_file_agree(
    make_bench: MakeBench, python: Path, tmp_path: Path
) -> None:
    bench = await make_bench(name="mine")
    bench.engine.reply = scripted(iter(COMMANDS))
    url = f"http://127.0.0.1:{bench.gateway.server.port}"
    saved = await asyncio.to_thread(run_mini, python, url, tmp_path)
    assert (tmp_path / "answer.txt").read_text() == "42\n"
    assert await bench.release("sum-1")
    await asyncio.sleep(0.02)
    (attempt,) = await bench.rows("select status, stop_reason, steps, prompt_tokens from attempts")
    assert (attempt["status"], attempt["stop_reason"], attempt["steps"]) == ("ok", "released", 3)
    (own,) = IMPORTERS[detect(saved)](saved, "run")
    assert isinstance(own, ImportedAttempt)
    assert (own.task_id, own.outcome["answer"]) == ("sum-1", "42\n")
    assert sum(call["prompt_tokens"] for call in own.calls) == attempt["prompt_tokens"]
    rows = await bench.rows("select * from transcript('sum-1')")
    told = [(row["role"], row["content"]) for row in own.messages]
    # The last output, of the command that ended the run, is in the agent's file and never sent.
    assert [(row["role"], row["content"]) for row in rows] == told[:-1]
    assert told[-1][0] == "tool" and "was not executed" in str(told[-1][1])
