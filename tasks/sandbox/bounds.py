"""Time limits of programs in a sandbox: for starting, running and ending."""

import asyncio
from typing import Any

from tutti.tasks.sandbox.values import SandboxLimits, Status
from tutti.tasks.sandbox.watch import WATCH

START_S = 10.0
"""A launcher that takes longer has failed; normally a start takes a twentieth of a second."""


async def overrun(
    reading: "asyncio.Future[Any]", pid: int, limits: SandboxLimits, level: str
) -> tuple[Status, str] | None:
    """Wait for `reading`; None if it finishes in time, else the run's status and the reason."""
    watching = asyncio.ensure_future(WATCH.trouble(pid, limits))
    waiting = {reading} if level == "limits" else {reading, watching}
    try:
        await asyncio.wait(waiting, timeout=limits.seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        watching.cancel()
    if reading.done():
        return None
    if level != "limits" and watching.done():
        return "killed", f"killed: {watching.result()}\n"
    return "timeout", ""
