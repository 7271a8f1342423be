"""Tests that the transcript equals the conversation that the agent saw, for five agent libraries,
each with its own loop and history.

Their Python is in `.venv-harnesses/agents` (``make harnesses``) or named by TUTTI_HARNESS_AGENTS;
without it, the tests are skipped.
"""

import asyncio
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.serving.conftest import Bench
from tests.serving.gateway.raw_engine import ReceivedRequest, Reply, Wire
from tests.serving.gateway.recording.scripted import (
    Chat,
    Messages,
    Responses,
    ScriptedEngine,
    ToolCall,
    Turn,
)
from tutti.tasks.platform.project import PROJECT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

AGENT_TIMEOUT_S = 240.0
OFFLINE = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_TELEMETRY": "False",
    "MSWEA_SILENT_STARTUP": "1",
    "OTEL_SDK_DISABLED": "true",
}
"""What the libraries would ask of the network otherwise."""

CITY = {"city": "Zürich"}
# Ids in no order, a turn without text, and one whose text is only space, as models answer.
ASKING = (
    Turn("Let me look.", (ToolCall("call_b", "add", {"a": 1, "b": 2.0}),
                          ToolCall("call_a", "weather", CITY)), "A sum and the weather."),
    Turn("", (ToolCall("call_d", "add", {"a": 3, "b": 0.5}),)),
    Turn("\n\n", (ToolCall("call_c", "weather", CITY),)),
)  # fmt: skip
LAST = "It is 3, and it rains.\n"
TOOLS = (*ASKING, Turn(LAST))
FINAL_TOOL = (*ASKING, Turn("", (ToolCall("call_e", "final_answer", {"answer": LAST}),)))
CODE = tuple(
    Turn(f"Thought: I shall look.\n<code>\n{code}\n")  # ended by the stop sequence
    for code in ("x = add(1, 2.0)\nprint(x)", "print(weather('Zürich'))", "final_answer('It is 3')")
)


def bash(call_id: str, command: str) -> ToolCall:
    return ToolCall(call_id, "bash", {"command": command})


SHELL = (
    Turn("Let me look.", (bash("call_b", "echo 3"), bash("call_a", "echo 'Rain in Zürich'")),
         "A sum and the weather."),
    Turn("", (bash("call_d", "echo 'a \"b\"' && false"),)),
    Turn("\n\n", (bash("call_c", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo 3"),)),
)  # fmt: skip


@dataclass(frozen=True)
class LibraryCase:
    """An agent, its protocols, and the model's responses."""

    agent: str
    protocols: tuple[str, ...]
    turns: tuple[Turn, ...] = TOOLS
    modes: tuple[str, ...] = ("whole", "streamed")

    def __str__(self) -> str:
        return f"{self.agent}-{self.protocols[0]}"

    @property
    def programs(self) -> list[str]:
        return [f"{protocol}-{mode}" for protocol in self.protocols for mode in self.modes]


CASES = [
    LibraryCase("openai", ("chat", "responses")),
    LibraryCase("anthropic", ("messages", "threads")),
    LibraryCase("smolagents", ("chat",), FINAL_TOOL),
    LibraryCase("smolagents", ("code",), CODE),
    LibraryCase("pydantic_ai", ("chat", "messages", "responses")),
    LibraryCase("mini_swe_agent", ("chat", "messages", "responses"), SHELL, ("whole",)),
]


def every_protocol(turns: tuple[Turn, ...]) -> Reply:
    engines: dict[str, ScriptedEngine] = {
        "/v1/chat/completions": Chat(turns),
        "/v1/messages": Messages(turns),
        "/v1/responses": Responses(turns),
    }

    async def reply(asked: ReceivedRequest, wire: Wire) -> None:
        await engines[asked.path.partition("?")[0]](asked, wire)

    return reply


@pytest.fixture
def python() -> Path:
    """Return the Python that has the libraries; skip the test if there is none."""
    usual = PROJECT / ".venv-harnesses" / "agents" / "bin" / "python"
    path = Path(os.environ.get("TUTTI_HARNESS_AGENTS", usual))
    if not path.is_file():
        pytest.skip("the agent libraries are not installed: `make harnesses`")
    return path


def run_agent(python: Path, case: LibraryCase, url: str, home: Path) -> dict[str, Any]:
    module = f"tests.serving.gateway.recording.agents.with_{case.agent}"
    done = subprocess.run(
        [python, "-m", module, url, *case.programs],
        cwd=PROJECT,
        env={"PATH": os.environ["PATH"], "HOME": str(home), **OFFLINE},
        capture_output=True,
        text=True,
        timeout=AGENT_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


def as_seen(row: dict[str, Any], of: dict[str, Any]) -> dict[str, Any]:
    """Return a message of the store in the format in which the agent prints `of`."""
    found = {"role": row["role"], "text": row["content"] or ""}
    if row["role"] == "assistant":
        found["calls"] = [[c["id"], c["name"], json.loads(c["arguments"])]
                          for c in row["tool_calls"]]  # fmt: skip
    if row["role"] == "tool":
        found["result_of"] = row["tool_call_id"]
    if "thought" in of:
        found["thought"] = row["reasoning"]
    return found


def assert_same(rows: list[dict[str, Any]], seen: list[dict[str, Any]]) -> None:
    blank: dict[str, Any] = {}
    wanted = [*seen, *[blank] * (len(rows) - len(seen))]
    assert [as_seen(row, of) for row, of in zip(rows, wanted, strict=False)] == seen


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_the_transcript_is_what_the_agent_saw(
    raw: Bench, case: LibraryCase, python: Path, tmp_path: Path
) -> None:
    """Every message is stored once, every call's prompt is returned whole, and calls are
    numbered."""
    raw.engine.reply = every_protocol(case.turns)
    url = f"http://127.0.0.1:{raw.gateway.server.port}"
    seen = await asyncio.to_thread(run_agent, python, case, url, tmp_path)
    streams = [bool(asked.json().get("stream")) for asked in raw.engine.asked]
    assert streams == [name.endswith("-streamed") for name in case.programs for _ in case.turns]
    for program in case.programs:
        await assert_recorded(raw, program, seen[program], case.turns)


async def assert_recorded(
    raw: Bench, program: str, seen: list[dict[str, Any]], turns: tuple[Turn, ...]
) -> None:
    rows = await raw.rows(f"select * from transcript('{program}')")
    assert_same(rows, seen)
    calls = [row for row in await raw.calls() if row["attempt_id"] == program]
    assert [(row["step"], row["status"]) for row in calls] == [
        (step, "ok") for step in range(1, len(turns) + 1)
    ]
    places = [n for n, row in enumerate(rows) if row["role"] == "assistant"]
    assert [rows[place]["call_id"] for place in places] == [row["call_id"] for row in calls]
    for place, call in zip(places, calls, strict=True):
        assert_same(await raw.rows(f"select * from prompt('{call['call_id']}')"), seen[:place])
