"""How late the client itself is: rows of `server_metrics` that say whether it was the bottleneck.

In: an event loop at work. Out, once a second: the largest lateness of a timer in that second, the
CPU seconds of this process, and the attempts in progress. A figure of a cell is the engine's only
as long as these are small.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from tutti.storage import catalog as cat

TICK_S, ROW_S = 0.02, 1.0
CLIENT = "client"
LAG, CPU, SESSIONS = "client:loop_lag_seconds", "client:cpu_share", "client:sessions"
PAUSED = "client:paused"  # a row where a pause begins


async def watch_client(
    key: dict[str, Any], sessions: Callable[[], int], add: Callable[[str, dict[str, Any]], object]
) -> None:
    """Add rows until cancelled. `key`: the row's sweep_id and cell_id; `add`: (table, row)."""
    loop = asyncio.get_running_loop()
    began, cpu = loop.time(), time.process_time()
    worst = 0.0
    while True:
        asked = loop.time() + TICK_S
        await asyncio.sleep(TICK_S)
        now = loop.time()
        worst = max(worst, now - asked)
        if now - began < ROW_S:
            continue
        used = time.process_time()
        found = {LAG: worst, CPU: (used - cpu) / (now - began), SESSIONS: float(sessions())}
        for name, value in found.items():
            row = {"engine_id": CLIENT, "at": cat.now(), "name": name, "value": value}
            add("server_metrics", key | row)
        began, cpu, worst = now, used, 0.0
