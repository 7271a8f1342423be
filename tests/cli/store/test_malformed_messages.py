"""Tests of client messages that no API defines, as the gateway recorded them, in every program that
reads stored conversations."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tutti import storage
from tutti.cli.main import app
from tutti.storage import catalog as cat
from tutti.storage.write.conversation import Conversation

ODD: list[dict[str, Any]] = [
    {"content": "who says so?"},
    {"role": None, "content": "nobody"},
    {"role": 5, "content": 5},
    {"role": "robot", "content": {"a": [1, None]}},
    {"role": "user"},
    {"role": "user", "content": []},
    {"role": "user", "content": [None, 5, {"type": "text", "text": 7}, {"type": "image_url"}]},
    {"role": "user", "content": True},
    {"role": "user", "content": "cut \ud83d", "name": {"a": 1}},
    {"role": "assistant", "content": None, "tool_calls": {"id": 1}},
    {"role": "assistant", "content": 7, "tool_calls": [None, "x", {"function": "f"}, {}]},
    {"role": "assistant", "tool_calls": [{"id": 5, "function": {"name": None, "arguments": 5}}]},
    {"role": "assistant", "reasoning": {"a": 1}, "content": [{"type": "refusal", "refusal": None}]},
    {"role": "tool", "content": 4, "tool_call_id": 5, "name": []},
    {"role": "tool"},
    {},
]
ANSWER = {"role": "assistant", "content": "#### 4"}


def store(home: storage.Home) -> None:
    """Store a sweep of two attempts with one call each: one with all malformed messages, one with a
    value that is no message."""
    attempts: list[dict[str, Any]] = []
    messages, calls = [], []
    for nth, prompt in enumerate(([*ODD, *ODD[:3]], [{"role": "user", "content": "2+2?"}])):
        key = {"sweep_id": "s", "cell_id": "c", "attempt_id": f"a{nth}"}
        rows, spans = Conversation(key["attempt_id"]).observe(f"call-{nth}", prompt, ANSWER)
        messages += [key | row for row in rows]
        times = {"sent_at": cat.now(), "ended_at": cat.now()}
        call = {"call_id": f"call-{nth}", "step": 1, "role": "orchestrator", "status": "ok"}
        calls.append(key | call | times | {"prompt_spans": spans, "model": "m"})
        row = key | {"task_id": f"t{nth}", "sample_id": f"s{nth}", "trial": 0, "attempt": 1}
        row |= {"benchmark": "gsm8k", "model": "m", "policy": "p", "concurrency": 1, "repeat": 0}
        row |= {"status": "ok", "score": 0.0, "correct": False, "source": "sweep"}
        attempts.append(row | {"started_at": cat.now(), "ended_at": cat.now()})
    with storage.open_catalog(home) as catalog:
        storage.commit(catalog, {"attempts": attempts, "messages": messages, "calls": calls})
        catalog.upsert(cat.sweeps, {"sweep_id": "s", "name": "s", "spec": "{}"})
        cell: dict[str, Any] = {"cell_id": "c", "sweep_id": "s", "benchmark": "gsm8k", "model": "m"}
        cell |= {"policy": "p", "concurrency": 1, "repeat": 0, "position": 0, "index_id": ""}
        cell |= {"task_set_id": "task_set:1", "samples": 2, "status": "finished"}
        catalog.upsert(cat.cells, cell)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return the store's folder."""
    store(storage.Home(tmp_path / "home"))
    return tmp_path / "home"


def run(home: Path, *arguments: str | Path) -> Result:
    environment = {"TUTTI_HOME": str(home), "COLUMNS": "200"}
    done = CliRunner().invoke(app, [str(a) for a in arguments], env=environment)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


@pytest.mark.parametrize("format", ["inspect", "atif", "nemo-skills", "thunderagent", "parquet"])
def test_every_exporter_writes_them_or_counts_what_it_leaves_out(
    format: str, home: Path, tmp_path: Path
) -> None:
    chosen = [] if format == "parquet" else ["--sweep", "s"]
    done = run(home, "export", format, "--out", tmp_path / "out", *chosen)
    assert done.exit_code == 0, done.output
    if format == "nemo-skills":
        (file,) = (tmp_path / "out").rglob("output.jsonl")
        rows = {row["id"]: row for row in map(json.loads, file.read_text().splitlines())}
        roles = [message["role"] for message in rows["t0"]["conversation"]]
        assert None not in roles and roles[-1] == "assistant"
        assert "gsm8k: 5 messages without a role are left out" in done.stderr


def test_what_two_exporters_write_is_imported_again(home: Path, tmp_path: Path) -> None:
    for format in ("inspect", "atif"):
        out = tmp_path / format
        assert run(home, "export", format, "--out", out, "--sweep", "s").exit_code == 0
        done = run(tmp_path / f"{format}-home", "import", format, out, "--json")
        found = json.loads(done.stdout)
        assert not found["problems"] and found["taken"] == 2, (format, found["problems"])


def test_transcript_and_report_show_them(home: Path, tmp_path: Path) -> None:
    shown = json.loads(run(home, "sql", "--json", "from transcript('a0')").stdout)
    assert len(shown) == len(ODD) + 4
    done = run(home, "report", "s", "--out", tmp_path / "report")
    assert done.exit_code == 0, done.output
    page = next((tmp_path / "report").rglob("*.html")).read_text()
    assert "who says so?" in page and "robot" in page


def test_a_conversation_is_written_with_all_of_them(home: Path) -> None:
    """The macro `prompt` returns the call's whole prompt."""
    with closing(storage.connect(storage.Home(home))) as connection:
        found = connection.execute("select count(*) from prompt('call-0')").fetchone()
    assert found == (len(ODD) + 3,)
