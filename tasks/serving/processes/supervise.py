"""Supervision of one child process so that it never outlives its owner. Standard library only.

Run: ``python -I supervise.py LOG COMMAND...`` with a pipe as standard input. When the owner ends
for any reason, the pipe closes and the child's whole process tree is ended. SIGTERM does the same.
With TUTTI_SILENCE_S the owner must write a byte at least as often, each time that it has renewed
its leases on GPUs. Exit code: the child's.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
GRACE_S = 8.0  # vLLM needs a few seconds to shut down its engine process in order
POLL_S = 0.2
COULD_NOT_START = 127
SILENCE = "TUTTI_SILENCE_S"
SILENT = (
    "ended, because the leases on its GPUs were not renewed for {:g} s: its owner was stopped, or "
    "could not reach the catalog\n"
)

libc = ctypes.CDLL(None, use_errno=True)


def _die_with_supervisor() -> None:
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def descendants(root: int) -> list[int]:
    """Pids of all descendants of `root`, without `root`."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat") as stat:
                parent = int(stat.read().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry))
    found: list[int] = []
    pending = [root]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def _signal_all(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _end_tree(child: subprocess.Popen[bytes]) -> None:
    _signal_all([child.pid], signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    # As subreaper, this process adopts every orphan of the tree, so none can escape.
    for _ in range(50):
        alive = descendants(os.getpid())
        if not alive:
            break
        _signal_all(alive, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)


def main() -> int:
    """Start the child; wait for its end or the owner's."""
    log, *command = sys.argv[1:]
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    stopping = False
    silence_s = float(os.environ.pop(SILENCE, "inf"))

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    with open(log, "ab") as out:
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=_die_with_supervisor,
                close_fds=False,  # it inherits what this process was given to pass on
            )
        except OSError as error:
            out.write(f"cannot start {command[0]}: {error}\n".encode())
            return COULD_NOT_START
    heard_at = time.monotonic()
    while child.poll() is None and not stopping:
        readable, _, _ = select.select([0], [], [], POLL_S)
        if readable:
            stopping = stopping or not os.read(0, 4096)
            heard_at = time.monotonic()
        elif time.monotonic() - heard_at > silence_s:
            stopping = True
            with open(log, "a") as out_text:
                out_text.write(SILENT.format(silence_s))
    _end_tree(child)
    code = child.wait(timeout=GRACE_S)
    return code if code >= 0 else 128 - code  # as shells do: 137 for SIGKILL


if __name__ == "__main__":
    sys.exit(main())
