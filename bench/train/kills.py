"""A GRPO job that is killed again and again: ``python -m bench.train.kills [--kills 5]``.

Every process of the job is ended by SIGKILL at drawn times. At the end each step has its groups as
planned, each sample counts once, and each step is there once. What is drawn within a step differs:
an engine that starts anew has other batches.
"""

import argparse
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from bench.train.run import ENGINE, ENTRY, JOB
from tutti.storage import Home, query
from tutti.tasks.platform.project import PROJECT

STEPS, GROUPS, SIZE = 8, 8, 4
DOUBLED = (
    "select sample_id from attempts where status in ('ok', 'limit', 'model_error') "
    "group by 1 having count(*) > 1"
)
TRAINED = "select step from train_steps order by step"


def command(folder: Path) -> list[str]:
    """The job's."""
    tutti = str(PROJECT / ".venv" / "bin" / "tutti")
    words = [tutti, "train", "grpo", str(folder / "job.yaml")]
    return [*words, "--models", str(folder / "models.yaml"), "--json"]


def finished_cells(home: Home) -> int:
    """How far the job is."""
    if not home.catalog_file.exists():
        return 0
    rows = query("select count(*) as n from cells where status = 'finished'", home)
    return int(rows[0]["n"])


def killed_run(folder: Path, kills: int, seed: int) -> tuple[list[int], dict[str, Any]]:
    """(finished cells at each kill, what the last run printed)."""
    home, draw = Home(folder / "home"), Random(seed)
    environment = os.environ | {"TUTTI_HOME": str(home.root)}
    at = []
    for nth in range(kills):
        child = subprocess.Popen(
            command(folder), env=environment, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wanted, deadline = finished_cells(home) + 1, time.monotonic() + 300
        while finished_cells(home) < wanted and child.poll() is None:
            if time.monotonic() > deadline:
                raise SystemExit(f"kill {nth}: no cell was finished within 300 s")
            time.sleep(0.2)
        time.sleep(draw.uniform(0.0, 3.0))
        at.append(finished_cells(home))
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    done = subprocess.run(command(folder), env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    result: dict[str, Any] = json.loads(done.stdout)
    return at, result


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description="Kill a GRPO job, and see what is lost.")
    parser.add_argument("--kills", type=int, default=5, help="how often")
    parser.add_argument("--seed", type=int, default=0, help="of the times of the kills")
    given = parser.parse_args()
    job = JOB | {"steps": STEPS, "minutes": None, "evaluation": {"limit": 16}}
    job |= {"rollouts": {"groups": GROUPS, "group_size": SIZE, "staleness": 1}}
    with TemporaryDirectory() as name:
        folder = Path(name)
        models = {"models": {"pocket": ENTRY | {"engine": ENGINE}}}
        (folder / "models.yaml").write_text(yaml.safe_dump(models))
        (folder / "job.yaml").write_text(yaml.safe_dump(job))
        at, result = killed_run(folder, given.kills, given.seed)
        home = Home(folder / "home")
        steps = [row["step"] for row in query(TRAINED, home)]
        doubled = query(DOUBLED, home)
        attempts = query("select status, count(*) as n from attempts group by 1 order by 1", home)
        sampled = query(
            "select repeat, count(distinct sample_id) as n, count(distinct task_id) as tasks "
            "from attempts where cell_id in (select cell_id from cells where samples = $n) "
            "and status in ('ok', 'limit', 'model_error') group by 1 order by 1",
            home,
            {"n": GROUPS * SIZE},
        )
    print(f"killed with {at} cells finished; statuses {attempts}; final {result['card']['steps']}")
    whole = [row["n"] for row in sampled] == [GROUPS * SIZE] * STEPS
    whole = whole and steps == list(range(1, STEPS + 1)) and not doubled
    print(json.dumps({"kills": len(at), "whole": whole, "doubled": len(doubled), "steps": steps}))
    if not whole:
        raise SystemExit(f"not whole: {sampled}")


if __name__ == "__main__":
    main()
