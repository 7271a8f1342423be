"""Scripted models behind one endpoint, and sweeps of them by the command that a user types.

The orchestrator searches once, then calls an expert for the answer; judges reply in the format of
their publisher's rule; the solver is correct for three of four numbers, always the same.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.endpoint_double import endpoint
from tutti.storage import Home, query

FACT = "The record says that the number is 42."
START, LONGEST_S = "from tutti.cli.main import main; main()", 240.0
MODELS = ("solver", "orchestrator", "expert", "judge", "gpt-5", "gpt-5-mini", "gpt-oss-120b")
Reply = Callable[[dict[str, Any]], dict[str, Any]]


def text_of(body: dict[str, Any]) -> str:
    """Return the text of all messages of a request."""
    return "\n".join(str(message.get("content") or "") for message in body["messages"])


def orchestrate(body: dict[str, Any]) -> dict[str, Any]:
    """Search until the fact is in the prompt, then answer with the first expert that the tool
    offers."""
    if "tools" not in body:  # the first call of a run
        return {"content": "yes"}
    name = "answer" if FACT in text_of(body) else "search"
    call = {"name": name, "arguments": json.dumps({"model": f"{name}-1"})}
    return {
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": call}],
        "finish_reason": "tool_calls",
    }


def expert(_: dict[str, Any]) -> dict[str, Any]:
    """Return a query and an answer in one text; each parser reads its part."""
    return {"content": "<query>what is the number of the record</query>\nIt is \\boxed{42}."}


def judged(body: dict[str, Any]) -> dict[str, Any]:
    """Return a verdict in the format of the requesting rule: correct if the answer contains 42."""
    right = "42" in text_of(body).split("answer", 1)[-1]
    fields = {"extracted_final_answer": "42", "reasoning": "", "confidence": 70}
    hle = json.dumps(fields | {"correct": "yes" if right else "no"})
    return {
        "content": f"{hle}\nDecision: {'TRUE' if right else 'FALSE'}\n<correct>{right}</correct>"
    }


def solve(body: dict[str, Any]) -> dict[str, Any]:
    """Add the two numbers of the question; sums divisible by 4 are answered wrongly. The seed
    changes the wrong answer, so that trials differ."""
    words = text_of(body).replace("?", " ").replace("+", " + ").split()
    if "+" not in words:  # the first call of a run, which asks whether anybody is there
        return {"content": "yes"}
    place = words.index("+")
    total = int(words[place - 1]) + int(words[place + 1])
    said = total if total % 4 else int(body.get("seed") or 0) % 1000
    return {"content": f"So \\boxed{{{said}}}\n#### {said}"}


PLAYERS: dict[str, Reply] = {
    "solver": solve,
    "orchestrator": orchestrate,
    "judge": judged,
}


@contextmanager
def players(folder: Path, **more: Reply) -> Iterator[Path]:
    """Run the endpoint and yield its registry; `more` replaces players."""
    known = PLAYERS | more

    def reply(body: dict[str, Any]) -> dict[str, Any]:
        return known.get(body["model"], expert)(body)

    with endpoint(*({"id": name} for name in MODELS), reply=reply) as url:
        entry = {"provider": "openai", "endpoint": f"{url}/v1", "context_tokens": 32768}
        entry |= {"prices": {"prompt": 1.0, "cached": 1.0, "completion": 2.0}}
        registry = folder / "models.yaml"
        registry.write_text(yaml.safe_dump({"models": {name: dict(entry) for name in MODELS}}))
        yield registry


def sweep(folder: Path, registry: Path, suite: dict[str, Any]) -> list[dict[str, Any]]:
    """Run `tutti sweep run` for a suite and return its attempts with their newest score."""
    file = folder / f"{suite['name']}.yaml"
    file.write_text(yaml.safe_dump(suite))
    done = tutti("sweep", "run", str(file), "--models", str(registry))
    assert "Traceback" not in done
    return query(
        "select a.*, s.scorer, s.detail from attempts a left join scores s "
        "using (attempt_id) where a.sweep_id = (select sweep_id from sweeps where name = $name "
        "order by created_at desc limit 1) order by a.task_id, a.attempt_id",
        Home(folder / "home"),
        {"name": suite["name"]},
    )


def tutti(*arguments: str) -> str:
    """Run a command in its own process, as a user does, and return its output; it must succeed."""
    done = subprocess.run(
        [sys.executable, "-c", START, *arguments],
        env=os.environ | {"COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
