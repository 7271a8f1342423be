"""GPU metrics of the gateway's machine, read each second of a cell in a thread, so that no call
waits."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from tutti.storage import catalog as cat
from tutti.tasks.serving.metering.gpu import GpuSampler

Rows = list[dict[str, Any]]


class Gpus:
    """Rows of `server_metrics` from NVML while a cell runs; without NVML, only the reason."""

    def __init__(
        self,
        on_rows: Callable[[Rows], None],
        cell: Callable[[], str],
        make: Callable[[str], GpuSampler] = GpuSampler,
        sample_s: float = 1.0,
    ) -> None:
        self.on_rows, self.cell, self.make, self.sample_s = on_rows, cell, make, sample_s
        self.absent = "not read yet"
        """Why no GPU can be read; empty if one can."""

    async def watch(self) -> None:
        """Sample forever; returns if there is no GPU to sample."""
        sampler = await asyncio.to_thread(self.make, f"host:{socket.gethostname()}")
        self.absent = sampler.absent
        try:
            while not self.absent:
                if cell := self.cell():
                    self.on_rows(await asyncio.to_thread(sampler.rows, cat.now(), cell))
                await asyncio.sleep(self.sample_s)
        finally:
            sampler.close()
