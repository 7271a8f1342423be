"""Tests that a merge of chunks can be resumed after a kill at any point."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sweeps.generate.test_files import ROWS, write_chunk
from tests.sweeps.generate.test_work import request_of
from tutti.tasks.sweeps.generate import GenerateRequest, merge_chunks, open_work

SETTINGS = {"temperature": 0.7, "reasoning": "auto"}
MERGED = {"output-rs0.jsonl", "output-rs1.jsonl", "generate.json"}
KILLED = """
import os, pathlib, signal, sys
from tutti.tasks.sweeps.generate import GenerateRequest, merge_chunks
left = int(sys.argv[2])
def counted(change):
    def run(path, *more, **words):
        global left
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return change(path, *more, **words)
    return run
os.replace, pathlib.Path.unlink = counted(os.replace), counted(pathlib.Path.unlink)
folder = pathlib.Path(sys.argv[1])
merge_chunks(GenerateRequest(folder / "rows.jsonl", None, folder / "out", samples=2, chunks=2), 3)
print(left)
"""


def whole_folder(folder: Path) -> GenerateRequest:
    """Write both chunks of both seeds, as two machines leave them, and return the request to merge
    them."""
    folder.mkdir(exist_ok=True)
    for chunk, rows in ((0, ROWS[:1]), (1, ROWS[1:])):
        request = request_of(folder, ROWS, samples=2, chunks=2, chunk=chunk)
        open_work(request, 4).write(SETTINGS)
        for seed in request.seeds:
            write_chunk(request.path_of(seed, chunk), rows)
    return request_of(folder, ROWS, samples=2, chunks=2, model=None)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of each file."""
    return {path.name: path.read_bytes() for path in (folder / "out").glob("[!.]*")}


def merge_killed(folder: Path, steps: int) -> "subprocess.CompletedProcess[str]":
    """Merge in a process that is killed with SIGKILL before its next rename or removal after
    `steps`."""
    command = [sys.executable, "-c", KILLED, str(folder), str(steps)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.slow
def test_a_merge_goes_on_after_a_kill_at_each_of_its_steps(tmp_path: Path) -> None:
    """The next command may be a chunk's, that of the whole, or the merge again."""
    merge_chunks(whole_folder(tmp_path / "quiet"), 3)
    wanted = contents(tmp_path / "quiet")
    assert set(wanted) == MERGED
    whole_folder(tmp_path / "counted")
    steps = 100 - int(merge_killed(tmp_path / "counted", 100).stdout)
    assert steps > 10
    for step in range(steps):
        folder = tmp_path / f"killed-{step}"
        request = whole_folder(folder)
        assert merge_killed(folder, step).returncode == -9
        for chunk in range(2):
            work = open_work(request_of(folder, ROWS, samples=2, chunks=2, chunk=chunk), 4)
            work.check(SETTINGS)
            assert not work.left, f"step {step}: the chunk is there, or merged"
        if request.path_of(0).exists():
            open_work(request_of(folder, ROWS, samples=2), 4).check(SETTINGS)
        assert merge_chunks(request, 3)[1] == [], f"step {step}"
        assert contents(folder) == wanted, f"step {step}"


def test_a_merge_that_was_killed_after_its_files_is_finished(tmp_path: Path) -> None:
    """The files are complete, and the settings file is written from those of the chunks."""
    request = whole_folder(tmp_path)
    for seed in request.seeds:
        write_chunk(request.path_of(seed), ROWS)
    assert merge_chunks(request, 3) == ([], [])
    assert set(contents(tmp_path)) == MERGED
    kept = json.loads((tmp_path / "out" / "generate.json").read_text())
    assert kept == {"parts": [], "settings": SETTINGS}
    assert open_work(request_of(tmp_path, ROWS, samples=2), 4).left == ()
