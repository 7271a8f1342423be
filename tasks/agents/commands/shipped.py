"""Harnesses that tutti ships: a program of `deployments/harnesses`, and the Python that runs it.

A command of a suite names one by a word, such as ``{tau2} --max-steps 100``, so that a cell's id
contains no path of a machine. To add a harness: a program, and an entry of `SHIPPED`.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from tutti.tasks.platform import DEPLOYMENTS, IS_SOURCE, PROJECT

ENVIRONMENTS = ".venv-harnesses"


@dataclass(frozen=True)
class ShippedHarness:
    """A program and its environment."""

    name: str
    """Of its environment's folder in `.venv-harnesses`."""
    program: str
    version: str
    """Of what the program decides of an outcome; part of a cell's id."""
    made_by: str
    """The command that makes the environment of a checkout of tutti."""
    made_by_hand: str
    """The command where tutti is installed."""
    has_experts: bool = True
    """Whether it knows the tool `call_expert` of a suite's agent."""

    @property
    def word(self) -> str:
        """The word for it in a command."""
        return f"{{{self.name}}}"

    @property
    def python(self) -> Path:
        """The Python of its environment, which need not exist. TUTTI_HARNESS_NAME overrides it."""
        folder = PROJECT if IS_SOURCE else Path.cwd()
        usual = folder / ENVIRONMENTS / self.name / "bin" / "python"
        return Path(os.environ.get(f"TUTTI_HARNESS_{self.name.upper()}") or usual)

    @property
    def install(self) -> str:
        """The command that creates the environment."""
        return self.made_by if IS_SOURCE else self.made_by_hand

    @property
    def words(self) -> list[str]:
        """The words of the command that starts it."""
        # Not resolved: a virtual environment's Python is a link, and works only by its own name.
        return [os.path.abspath(self.python), str(DEPLOYMENTS / "harnesses" / self.program)]


TAU2 = ShippedHarness(
    "tau2",
    "tau2_episode.py",
    "2",
    "make tau2 TAU2=CHECKOUT",
    f"uv venv --python 3.12 {ENVIRONMENTS}/tau2 && uv pip install "
    f"--python {ENVIRONMENTS}/tau2/bin/python rank-bm25 --editable CHECKOUT",
)
BFCL = ShippedHarness(
    "bfcl",
    "bfcl_episode.py",
    "1",
    "make bfcl",
    f"uv venv --python '>=3.11,<3.13' {ENVIRONMENTS}/bfcl && "
    f"uv pip install --python {ENVIRONMENTS}/bfcl/"
    f"bin/python -r {DEPLOYMENTS / 'harnesses' / 'requirements-bfcl.txt'} && uv pip install "
    f"--python {ENVIRONMENTS}/bfcl/bin/python --no-deps bfcl-eval==2026.3.23",
    has_experts=False,
)
API_BANK = ShippedHarness(
    "api_bank",
    "api_bank_calls.py",
    "1",
    "make api-bank API_BANK=CHECKOUT",
    f"uv venv {ENVIRONMENTS}/api_bank && export TUTTI_API_BANK=CHECKOUT",
)
"""Makes no attempts: the scorer ``api_bank`` executes calls with it."""
SHIPPED = {harness.word: harness for harness in (TAU2, BFCL)}


def shipped_harness(command: str | None) -> ShippedHarness | None:
    """Return the harness with which `command` begins; None if it is another program."""
    return SHIPPED.get((command or "").partition(" ")[0])
