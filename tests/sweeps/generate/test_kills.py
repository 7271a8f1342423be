"""Tests of `tutti generate` on a scripted endpoint: runs resumed after kill -9, chunks with
separate stores, and seeds added later give the bytes of an undisturbed run."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.endpoint_double import endpoint
from tutti.storage import home_at, query

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
ROWS, SAMPLES, KILLS = 30, 2, 3
FILES = [f"output-rs{seed}.jsonl" for seed in range(SAMPLES)]


class Scripted:
    """Endpoint whose replies are a function of the request, optionally slow."""

    def __init__(self) -> None:
        self.delay_s, self.asked = 0.0, 0
        self._lock = threading.Lock()

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the message for a request."""
        with self._lock:
            self.asked += 1
        time.sleep(self.delay_s)
        said = [body["messages"], body["seed"], body["temperature"]]
        return {"content": hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]}


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[tuple[Scripted, str]]:
    """Yield the endpoint and its URL, with the rows in the folder."""
    rows = [{"problem": f"What is {n} + 1?", "expected_answer": n + 1} for n in range(ROWS)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    script = Scripted()
    with endpoint({"id": "m", "max_model_len": 4096}, reply=script.reply) as url:
        yield script, url


def start(folder: Path, home: str, url: str, *flags: str) -> "subprocess.Popen[bytes]":
    """Start the verb in its own process."""
    command = [sys.executable, "-m", "tutti.cli.main", "generate", "rows.jsonl", "--model", url]
    environment = os.environ | {"TUTTI_HOME": str(folder / home)}
    environment.pop("TUTTI_CATALOG_URL", None)
    command += ["--samples", str(SAMPLES), "--concurrency", "2", *flags]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def finish(folder: Path, home: str, url: str, *flags: str) -> str:
    """Run the verb to its end and return its output."""
    out, err = start(folder, home, url, *flags).communicate(timeout=120)
    text = (out + err).decode()
    assert "Traceback" not in text, text
    return text


def test_killed_and_resumed_gives_the_same_bytes(
    tmp_path: Path, scripted: tuple[Scripted, str]
) -> None:
    script, url = scripted
    finish(tmp_path, "quiet", url, "--out", "quiet-out")
    undisturbed = script.asked
    draw, script.delay_s = Random(7), 0.1
    for _ in range(KILLS):
        asked = script.asked
        process = start(tmp_path, "killed", url, "--out", "killed-out")
        wanted = asked + draw.randint(4, 16)
        until = time.monotonic() + 60
        while script.asked < wanted and process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    assert not (tmp_path / "killed-out" / FILES[0]).exists(), "it was killed in its first half"
    script.delay_s = 0.0
    finish(tmp_path, "killed", url, "--out", "killed-out")
    for name in FILES:
        quiet, killed = (
            (tmp_path / out / name).read_bytes() for out in ("quiet-out", "killed-out")
        )
        assert quiet == killed and quiet.count(b"\n") == ROWS
    assert script.asked - undisturbed < (KILLS + 1) * ROWS * SAMPLES, "finished rows were reused"
    ok = query("select count(*) n from attempts where status = 'ok'", home_at(tmp_path / "killed"))
    assert ok == [{"n": ROWS * SAMPLES}], "each sample has one attempt that counts"


def test_chunks_and_added_seeds_give_the_same_bytes(
    tmp_path: Path, scripted: tuple[Scripted, str]
) -> None:
    script, url = scripted
    finish(tmp_path, "quiet", url, "--out", "quiet-out")
    for chunk in (1, 0):
        text = finish(
            tmp_path, f"store-{chunk}", url, "--out", "out", "--chunks", "2", "--chunk", str(chunk)
        )
    assert "out/output-rs1.jsonl" in text
    finish(tmp_path, "quiet", url, "--out", "one", "--samples", "1")
    asked = script.asked
    finish(tmp_path, "quiet", url, "--out", "one")  # adds seed 1
    assert script.asked - asked <= ROWS + 1, (
        "seed 0 is not asked again; one call tries the endpoint"
    )
    for name in FILES:
        quiet = (tmp_path / "quiet-out" / name).read_bytes()
        assert quiet == (tmp_path / "out" / name).read_bytes()
        assert quiet == (tmp_path / "one" / name).read_bytes()
    assert len({(tmp_path / "one" / name).read_bytes() for name in FILES}) == SAMPLES
