"""Runs a service and measures how long one event held its loop, in CPU time of the loop's thread.

Run: ``python -m tests.e2e.fuzzed.held_loop FILE MODULE ARGUMENTS``. In: a module that is started
with ``-m``, and its arguments. Out: in FILE, when the module ends, the longest CPU time of one
callback and its name, since SIGUSR1 if that was sent. CPU time is measured because a busy machine
stops any process for longer. The loop is asyncio's own in place of uvloop's, whose callbacks cannot
be timed from outside.
"""

import asyncio
import json
import runpy
import signal
import sys
import time
from asyncio.events import Handle
from pathlib import Path
from typing import Any

import uvloop


def main() -> None:
    """Run the module, then write the measurement."""
    file, module = Path(sys.argv[1]), sys.argv[2]
    longest, run_handle = (0.0, ""), Handle._run

    def begin(*_: object) -> None:
        nonlocal longest
        longest = (0.0, "")

    def timed(handle: Handle) -> None:
        nonlocal longest
        # Read before: a handle that has run may be cancelled, and then names nothing.
        callback: Any = handle._callback  # type: ignore[attr-defined]
        began = time.thread_time()
        run_handle(handle)
        held_s = time.thread_time() - began
        if held_s > longest[0]:
            task = getattr(callback, "__self__", None)
            longest = (held_s, repr(task if isinstance(task, asyncio.Task) else callback))

    signal.signal(signal.SIGUSR1, begin)
    Handle._run = timed  # type: ignore[method-assign, assignment]
    uvloop.run = asyncio.run  # type: ignore[assignment]
    sys.argv = [module, *sys.argv[3:]]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        file.write_text(json.dumps({"held_ms": longest[0] * 1000, "by": longest[1][:500]}))


if __name__ == "__main__":
    main()
