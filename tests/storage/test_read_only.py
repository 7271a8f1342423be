"""Tests of a read-only disk, permanent or temporary: existing data can be read, and none is
lost."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tutti import storage

WORKER = """
import sys
from pathlib import Path
from tutti import storage
catalog = storage.open_catalog(storage.Home(Path(sys.argv[1])))
writer = storage.BufferedWriter(catalog, commit_s=60)
writer.add("calls", {"call_id": "c"})
for _ in range(2):
    try:
        print(writer.flush(), flush=True)
    except storage.StoreError as error:
        print("refused:", error, flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a separate file system; skip the test if this user cannot mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(folder)])
    if done.returncode:
        pytest.skip("needs the right to mount a file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def remount(disk: Path, mode: str) -> None:
    """Make the file system read-only (ro) or writable (rw)."""
    subprocess.run(["mount", "-o", f"remount,{mode}", str(disk)], check=True)


def attempts(home: storage.Home) -> list[str]:
    """Return the attempts visible to readers."""
    rows = storage.query("select attempt_id from attempts order by all", home)
    return [row["attempt_id"] for row in rows]


@pytest.mark.parametrize("killed", [False, True])
def test_a_store_on_a_read_only_disk_is_read(disk: Path, killed: bool) -> None:
    """The store was closed properly or killed at work: SQLite's files differ, the results do
    not."""
    home = storage.Home(disk / "store")
    command = "import sys, storage; from pathlib import Path\n"
    command += "c = storage.open_catalog(storage.Home(Path(sys.argv[1])))\n"
    command += "storage.commit(c, {'attempts': [{'attempt_id': 'a'}]})\n"
    command += "import os, signal; os.kill(os.getpid(), signal.SIGKILL)" if killed else "c.close()"
    subprocess.run([sys.executable, "-c", command, str(home.root)], cwd=Path.cwd(), env=_path())
    remount(disk, "ro")
    assert attempts(home) == ["a"]
    with storage.open_catalog(home) as catalog, pytest.raises(storage.StoreError):
        storage.commit(catalog, {"attempts": [{"attempt_id": "b"}]})
    remount(disk, "rw")
    with storage.open_catalog(home) as catalog:
        storage.commit(catalog, {"attempts": [{"attempt_id": "b"}]})
    assert attempts(home) == ["a", "b"]


def test_a_process_that_began_in_a_read_only_moment_carries_on_after_it(disk: Path) -> None:
    """Rows accepted meanwhile are committed as soon as the disk is writable."""
    home = storage.Home(disk / "store")
    with storage.open_catalog(home) as catalog:
        storage.commit(catalog, {"attempts": [{"attempt_id": "a"}]})
    remount(disk, "ro")
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, str(home.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=_path(),
    ) as worker:
        assert worker.stdin is not None and worker.stdout is not None
        try:
            assert "Read-only file system" in worker.stdout.readline()
            remount(disk, "rw")
            worker.stdin.write("\n")
            worker.stdin.flush()
            assert worker.stdout.readline() == "1\n"
        finally:
            worker.kill()
    assert storage.query("select call_id from calls", home) == [{"call_id": "c"}]


def _path() -> dict[str, Any]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
