"""The routers measured by the gateway's bench: how each is started and addressed.

Ours, the raw relay as a lower bound, ThunderAgent from the checkout that `TUTTI_PEER_THUNDERAGENT`
names, and vllm-router from the package registry. Peers are installed once, into environments below
the bench's folder. A peer that is not available is reported with the reason and left out.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from bench.gateway.cost import cores
from bench.gateway.process import CannotStart, Server, free_port
from bench.gateway.wire import ADMIN, RouterProtocol

# The one place that knows our command line; `--command` replaces it, for another build's figures.
OURS = (
    f"{shlex.quote(sys.executable)} -m tutti.tasks.serving.gateway "
    "--engine {first} --engine {second} --policy {policy} --port {port}"
)
VLLM_ROUTER = "vllm-router==0.1.17"
THUNDERAGENT_PACKAGES = ("fastapi", "uvicorn", "httpx")
THUNDERAGENT_PATH = "TUTTI_PEER_THUNDERAGENT"
KEPT = RouterProtocol(more="X-Tutti-Messages: kept\r\n")
INSTALL_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Bench:
    """The bench's folders."""

    folder: Path
    """Temporary: stores and logs."""
    peers: Path
    """Permanent: the peers' environments."""
    command: str = OURS


@dataclass(frozen=True)
class Engines:
    """The mock engines, in one process."""

    ports: tuple[int, int]
    server: Server

    @property
    def urls(self) -> tuple[str, str]:
        """Base URLs."""
        first, second = (f"http://127.0.0.1:{port}" for port in self.ports)
        return first, second


@dataclass
class Router:
    """A running router."""

    name: str
    port: int
    server: Server
    speech: RouterProtocol = field(default_factory=RouterProtocol)
    home: Path | None = None
    """Its store, if it has one."""


@contextmanager
def running_engines(bench: Bench, *options: str) -> Iterator[Engines]:
    """Two mock engines, ready; `options` are those of `bench.gateway.engine`."""
    ports = (free_port(), free_port())
    command = [sys.executable, "-m", "bench.gateway.engine", *map(str, ports), *options]
    with Server(command, bench.folder / f"engines-{ports[0]}.log", cores()[1]) as server:
        server.wait_ready(f"http://127.0.0.1:{ports[1]}/health")
        yield Engines(ports, server)


@contextmanager
def running_gateway(bench: Bench, engines: Engines, policy: str) -> Iterator[Router]:
    """Our gateway with a fresh store, recording as it does by default. Raises CannotStart."""
    first, second = engines.urls
    port = free_port()
    home = bench.folder / f"home-{port}"
    command = bench.command.format(first=first, second=second, policy=policy, port=port)
    server = Server(
        shlex.split(command),
        bench.folder / f"gateway-{port}.log",
        cores()[0],
        {"TUTTI_HOME": str(home), "TUTTI_GATEWAY_ADMIN_TOKEN": ADMIN},
    )
    with server:
        server.wait_ready(f"http://127.0.0.1:{port}/health")
        yield Router("tutti", port, server, home=home)


@contextmanager
def running_peer(bench: Bench, engines: Engines, name: str) -> Iterator[Router]:
    """A peer, ready. Raises CannotStart, or CalledProcessError when it cannot be installed."""
    command, speech, environment = PEERS[name](bench, engines)
    port = free_port()
    log = bench.folder / f"{name}-{port}.log"
    with Server([*command, str(port)], log, cores()[0], environment) as server:
        server.wait_ready(f"http://127.0.0.1:{port}/health")  # of the relay: the engine's
        yield Router(name, port, server, speech)


Started = tuple[list[str], RouterProtocol, dict[str, str]]
"""The command without its final port, the form of its calls, and its environment."""


def _relay(bench: Bench, engines: Engines) -> Started:
    command = [sys.executable, "-m", "bench.gateway.relay", *map(str, engines.ports)]
    return command, RouterProtocol(releases=False), {}


def _thunderagent(bench: Bench, engines: Engines) -> Started:
    checkout = os.environ.get(THUNDERAGENT_PATH)
    if not checkout:
        raise CannotStart(f"{THUNDERAGENT_PATH} names no checkout")
    python = installed(bench.peers / "thunderagent", THUNDERAGENT_PACKAGES)
    command = [str(python), "-m", "ThunderAgent", "--backends", ",".join(engines.urls)]
    command += ["--host", "127.0.0.1", "--router", "tr", "--metrics", "--log-level", "warning"]
    return [*command, "--port"], RouterProtocol(header=""), {"PYTHONPATH": checkout}


def _vllm_router(bench: Bench, engines: Engines) -> Started:
    python = installed(bench.peers / "vllm-router", [VLLM_ROUTER])
    command = [str(python.with_name("vllm-router")), "--enable-program-scheduling"]
    command += ["--worker-urls", *engines.urls, "--log-level", "warning"]
    metrics = ["--prometheus-port", str(free_port())]  # its own is fixed, and may be taken
    return [*command, *metrics, "--port"], RouterProtocol(header="x-session-id", releases=False), {}


PEERS: dict[str, Callable[[Bench, Engines], Started]] = {
    "raw_relay": _relay,
    "vllm_router": _vllm_router,
    "thunderagent": _thunderagent,
}


def installed(environment: Path, packages: Sequence[str]) -> Path:
    """The Python of an environment that has `packages`; it is created unless it is complete."""
    python = environment / "bin" / "python"
    done = environment / "installed.json"
    wanted = orjson.dumps(sorted(packages))
    if done.is_file() and done.read_bytes() == wanted and python.exists():
        return python
    shutil.rmtree(environment, ignore_errors=True)
    for command in (
        [sys.executable, "-m", "venv", str(environment)],
        [str(python), "-m", "pip", "install", "--quiet", *packages],
    ):
        subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_TIMEOUT_S)
    done.write_bytes(wanted)
    return python


def start_peers(
    stack: ExitStack, bench: Bench, engines: Engines, names: Sequence[str]
) -> tuple[list[Router], list[str]]:
    """Start the available peers, running until the stack closes; returns also why others are not
    available."""
    found, missing = [], []
    for name in names:
        try:
            found.append(stack.enter_context(running_peer(bench, engines, name)))
        except (CannotStart, OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", None) or b""
            words = f"{error} {said.decode(errors='replace')[-300:]}"
            missing.append(f"{name} is left out: {words.strip()}")
    return found, missing
