"""A synthesized domain through tau2-bench's own package: ``python -m bench.synthesis.tau2_check``.

In: a domain's folder (`write_domain_folder`, or a set over several databases; without one, the
gates' example), and a Python of 3.12 or later that has tau2 (``make tau2-check TAU2=CHECKOUT``).
Out: how many tasks tau2 loads, replays to our state hash, and rewards as it should; the last line
is JSON. Exit status 1 where any differs.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from tests.synthesis.example import EXAMPLE, EXTENDED, LOOKED_UP
from tutti.errors import TuttiError
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.synthesis.domains import (
    Domain,
    DomainTask,
    Toolkit,
    changed_task,
    domain_folders,
    read_domain_folder,
    write_tau2_folder,
)

SCRIPT = PROJECT / "deployments" / "harnesses" / "tau2_domain.py"
PYTHON = PROJECT / ".venv-harnesses" / "tau2" / "bin" / "python"
LIMIT_S = 1800.0
"""tau2 reads its database anew for each evaluation: some tenths of a second a task."""


class Tau2Failed(RuntimeError):
    """tau2 could not load the domain, or is not there."""


@dataclass(frozen=True)
class Tau2Result:
    """What tau2's own package made of a domain. Each number is of tasks."""

    tasks: int
    loaded: int
    """Valid by tau2's models."""
    in_base: int
    hashes_equal: int
    """Whose golden actions lead to our state hash, without an error."""
    golden_rewarded: int
    """Reward 1 for a dialogue of the golden actions and of what must be said."""
    idle_unrewarded: int
    """Reward 0 for doing nothing."""
    splits: dict[str, int]
    tools: tuple[str, ...]
    differences: tuple[dict[str, Any], ...]
    seconds: float

    @property
    def agrees(self) -> bool:
        """Whether every task is as it should be."""
        counts = {self.loaded, self.in_base, self.hashes_equal}
        return counts | {self.golden_rewarded, self.idle_unrewarded} == {self.tasks}


def check_with_tau2(folder: Path, name: str, python: Path = PYTHON) -> Tau2Result:
    """Let tau2 check the domain `name` that `write_tau2_folder` wrote into `folder`.

    Raises Tau2Failed.
    """
    if not python.exists():
        raise Tau2Failed(f"no tau2 at {python}: `make tau2-check TAU2=CHECKOUT` installs it there")
    began = perf_counter()
    command = [str(python), str(SCRIPT), str(folder), name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Tau2Failed(f"{name}: tau2 took more than {LIMIT_S:.0f} s") from error
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise Tau2Failed(f"{name}: tau2 cannot load it: {last[0]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    for listed in ("tools", "differences"):
        found[listed] = tuple(found[listed])
    return Tau2Result(**found, seconds=perf_counter() - began)


async def example() -> tuple[Domain, list[DomainTask]]:
    """The gates' example with what its tasks expect."""
    shorter = changed_task(EXTENDED, changed={"loans": {"L1": {"days": 3}}}, communicate=("10",))
    tasks = (EXTENDED, LOOKED_UP, shorter)
    async with Toolkit(EXAMPLE) as toolkit:
        replays = await toolkit.replay(tasks)
    pairs = zip(tasks, replays, strict=True)
    return EXAMPLE, [changed_task(task, expected=each.after) for task, each in pairs]


def main(arguments: Sequence[str] | None = None) -> int:
    """Check one domain; returns the exit status."""
    parser = argparse.ArgumentParser(description="check a synthesized domain with tau2 itself")
    parser.add_argument("--domain", type=Path, help="its folder; default: the gates' example")
    parser.add_argument("--name", help="its name in tau2, if not its own")
    parser.add_argument("--python", type=Path, default=PYTHON, help="a Python that has tau2")
    given = parser.parse_args(arguments)
    results: dict[str, Tau2Result] = {}
    for at, (domain, tasks) in enumerate(_domains(given.domain)):
        name = given.name or domain.name
        name = name if at == 0 else f"{name}_{at}"  # the databases of a set have one name
        with tempfile.TemporaryDirectory(prefix="tutti-tau2-") as folder:
            write_tau2_folder(Path(folder), domain, tasks, name)
            results[name] = result = check_with_tau2(Path(folder), name, given.python.absolute())
        print(name)
        for field in ("loaded", "hashes_equal", "golden_rewarded", "idle_unrewarded"):
            print(
                f"  {field.replace('_', ' '):<18}{getattr(result, field):>8,} of {result.tasks:,}"
            )
    made = {name: asdict(result) for name, result in results.items()}
    print(json.dumps({"bench": "tau2_check", "domains": made}))
    return 0 if all(result.agrees for result in results.values()) else 1


def _domains(folder: Path | None) -> Iterator[tuple[Domain, list[DomainTask]]]:
    if folder is None:
        yield asyncio.run(example())
        return
    for each in domain_folders(folder):
        domain, tasks = read_domain_folder(each)
        yield domain, list(tasks)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (TuttiError, Tau2Failed) as error:
        sys.exit(f"tau2_check: {error}")
