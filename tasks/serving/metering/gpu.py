"""GPU utilisation, memory and power from NVML, as rows of `server_metrics`.

Needs the package nvidia-ml-py (``pip install 'tutti[gpu]'``) and NVIDIA's driver; without them
there are no rows, and `absent` gives the reason. Reading a GPU takes milliseconds in the driver, so
it is read in a thread.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from datetime import datetime
from importlib import import_module
from typing import Any

from tutti.storage import catalog as cat

Row = dict[str, Any]

FIELDS: dict[str, Callable[[Any, Any], float]] = {
    "gpu_utilization": lambda nvml, gpu: float(nvml.nvmlDeviceGetUtilizationRates(gpu).gpu),
    "memory_used_bytes": lambda nvml, gpu: float(nvml.nvmlDeviceGetMemoryInfo(gpu).used),
    "power_watts": lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu) / 1000,  # it says mW
}
"""The figures read from each GPU."""


class GpuSampler:
    """All GPUs of this machine. `nvml` is the module pynvml or a test double."""

    absent: str = ""
    """Why no GPU can be read; empty if one can."""

    def __init__(self, engine_id: str, nvml: Any = None) -> None:
        self.engine_id = engine_id
        self._gpus: list[Any] = []
        self._open = False
        try:
            self._nvml = nvml if nvml is not None else import_module("pynvml")
        except ImportError:
            self.absent = "the package nvidia-ml-py is not installed"
            return
        try:
            self._nvml.nvmlInit()
            self._open = True
            count = self._nvml.nvmlDeviceGetCount()
            self._gpus = [self._nvml.nvmlDeviceGetHandleByIndex(n) for n in range(count)]
        except self._nvml.NVMLError as error:
            self.absent = f"NVML: {error}"
        else:
            self.absent = "" if self._gpus else "NVML lists no GPU"

    def rows(self, at: datetime, cell_id: str) -> list[Row]:
        """Current figures of each GPU. Figures that NVML cannot read have no row."""
        row = {"cell_id": cell_id, "engine_id": self.engine_id, "at": at}
        rows: list[Row] = []
        for index, gpu in enumerate(self._gpus):
            for field, read in FIELDS.items():
                name = f'nvml:{field}{{gpu="{index}"}}'
                # an error: a field that this GPU lacks, or a GPU that is lost
                with contextlib.suppress(self._nvml.NVMLError):
                    rows.append(row | {"name": name, "value": read(self._nvml, gpu)})
        return rows

    def close(self) -> None:
        self._gpus = []
        if self._open:
            self._open = False
            self._nvml.nvmlShutdown()


class Gpus:
    """Rows of `server_metrics` from NVML while a cell runs; without NVML, only the reason."""

    def __init__(
        self,
        on_rows: Callable[[list[Row]], None],
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
