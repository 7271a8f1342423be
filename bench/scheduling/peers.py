"""The benches' peers, each installed in its own environment if available.

ThunderAgent comes from the local checkout that TUTTI_PEER_THUNDERAGENT names, the others from the
package registry. `Peers` creates an environment on first use.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

INSTALL_TIMEOUT_S = 900.0  # GuideLLM brings PyTorch: 6 GB
THUNDERAGENT = "TUTTI_PEER_THUNDERAGENT"
"""The environment variable that names its checkout."""
REQUIREMENTS = {
    "thunderagent": ("fastapi", "uvicorn", "httpx"),  # all that its pyproject.toml asks for
    "vllm-router": ("vllm-router==0.1.17",),
    "inspect": ("inspect-ai==0.3.285", "openai"),
    "aiperf": ("aiperf==0.13.0",),
    "guidellm": ("guidellm[recommended]==0.8.1",),
}


class PeerMissing(Exception):
    """The peer is not available here; the message says why."""


@dataclass(frozen=True)
class PeerCommand:
    """The command of a peer and its environment."""

    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


class Peers:
    """Environments of peers under one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._missing: dict[str, str] = {}

    def thunderagent(self, engine_url: str, port: int, interval_s: float) -> PeerCommand:
        """The real ThunderAgent, deciding every `interval_s`. Raises PeerMissing."""
        checkout = os.environ.get(THUNDERAGENT)
        if not checkout or not Path(checkout, "ThunderAgent", "__main__.py").is_file():
            raise PeerMissing(f"{THUNDERAGENT} names no checkout of ThunderAgent")
        python = self._python("thunderagent")
        options = ("--host", "127.0.0.1", "--port", str(port), "--backends", engine_url)
        policy = ("--router", "tr", "--metrics", "--scheduler-interval", str(interval_s))
        command = (str(python), "-m", "ThunderAgent", *options, *policy)
        return PeerCommand((*command, "--log-level", "warning"), (("PYTHONPATH", checkout),))

    def vllm_router(self, engine_url: str, port: int, metrics_port: int) -> PeerCommand:
        """vllm-router with its program scheduling as it comes. Raises PeerMissing."""
        program = self._python("vllm-router").with_name("vllm-router")
        options = ("--host", "127.0.0.1", "--port", str(port), "--worker-urls", engine_url)
        quiet = ("--prometheus-port", str(metrics_port), "--log-level", "warning")
        return PeerCommand((str(program), "--enable-program-scheduling", *options, *quiet))

    def inspect(self) -> Path:
        """The Python of Inspect's environment. Raises PeerMissing."""
        return self._python("inspect")

    def aiperf(self) -> Path:
        """AIPerf's program. Raises PeerMissing."""
        return self._python("aiperf").with_name("aiperf")

    def guidellm(self) -> Path:
        """GuideLLM's program. Raises PeerMissing."""
        return self._python("guidellm").with_name("guidellm")

    def _python(self, peer: str) -> Path:
        if peer in self._missing:
            raise PeerMissing(self._missing[peer])
        folder = self._folder / peer
        python, done = folder / "bin" / "python", folder / "complete"
        wanted = " ".join(REQUIREMENTS[peer])
        if done.is_file() and done.read_text() == wanted:
            return python
        try:
            _run(sys.executable, "-m", "venv", "--clear", str(folder))
            quiet = ("--quiet", "--disable-pip-version-check")
            _run(str(python), "-m", "pip", "install", *quiet, *REQUIREMENTS[peer])
        except (subprocess.SubprocessError, OSError) as error:
            told = getattr(error, "stderr", None) or str(error)
            self._missing[peer] = f"{peer} could not be installed: {told.strip()[-300:]}"
            raise PeerMissing(self._missing[peer]) from error
        done.write_text(wanted)
        return python


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=INSTALL_TIMEOUT_S, capture_output=True, text=True)
