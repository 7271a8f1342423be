"""Running a module of tutti in several processes of the models environment, one per GPU.

Run: ``python -P launch_many.py N MODULE [ARGUMENT ...]``. Each process runs `launch.py` and reads
its rank from TUTTI_WORLD (`trainer/world.py`). The first process that fails decides the exit code
(torchrun would exit with 1); the others get `END_S` to end. No process outlives this one. Uses the
standard library only.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LAUNCHER = Path(__file__).with_name("launch.py")
WORLD = "TUTTI_WORLD"
"""``RANK SIZE FILE``: the file is where the processes find each other."""
END_S, POLL_S = 10.0, 0.1
PR_SET_PDEATHSIG = 1

Child = subprocess.Popen[bytes]


def start(rank: int, size: int, meeting: Path, command: list[str]) -> Child:
    """Start one process; it inherits all open files, among them the locks of GPUs."""
    threads = str(max(1, (os.cpu_count() or 1) // size))
    place = {WORLD: f"{rank} {size} {meeting}", "LOCAL_RANK": str(rank)}
    return subprocess.Popen(
        [sys.executable, "-P", str(LAUNCHER), *command],
        env={"OMP_NUM_THREADS": threads, **os.environ, **place},
        close_fds=False,
        preexec_fn=_die_with_parent,
    )


def wait(children: list[Child]) -> int:
    """Wait until all processes have ended; return 0, or the exit code of the first that failed."""
    failed, deadline = 0, float("inf")
    while time.monotonic() < deadline:
        codes = [child.poll() for child in children]
        if not failed and (failed := next(filter(None, codes), 0)):
            deadline = time.monotonic() + END_S
        if None not in codes:
            break
        time.sleep(POLL_S)
    return failed if failed >= 0 else 128 - failed  # as shells do: 137 for SIGKILL


def end(children: list[Child]) -> None:
    """Kill the processes that still run."""
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        child.wait()


def main() -> int:
    """Start all processes and wait for them."""
    size, command = int(sys.argv[1]), sys.argv[2:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    children: list[Child] = []
    with tempfile.TemporaryDirectory(prefix="tutti-world-") as folder:
        try:
            for rank in range(size):
                children.append(start(rank, size, Path(folder) / "meeting", command))
            return wait(children)
        finally:
            end(children)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main())
