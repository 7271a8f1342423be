"""Terminal-Bench: the figures of the imported results beside those of its own models.

In: the Python that has terminal-bench. Out: the agreement over made-up runs of one to ten attempts
at each of five tasks, with every failure mode: the number of resolved trials, accuracy, and pass@k
for each k that the package has.
"""

import random
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.evaluations.agreement import Agreement, official
from tutti import storage
from tutti.tasks.exchange import IMPORTERS, load

RUNS, TASKS, MOST_ATTEMPTS = 100, 5, 10
DIGITS = 9
MODES = (
    *("unset", "none", "unknown", "test_timeout", "agent_timeout", "unknown_agent_error"),
    *("parse_error", "fatal_llm_parse_error", "context_length_exceeded"),
    *("output_length_exceeded", "agent_installation_failed"),
)
UNTESTED = ("test_timeout", "parse_error")  # whose trials have no verdict
RESULTS_SQL = """
select r.correct, r.score from results r join sweeps s using (sweep_id) where s.name = ?
"""
PASS_SQL = "select value from pass_at_k($run, $k)"


def figures(python: str, _: Path, runs: int = RUNS) -> Agreement:
    """The figures of every run; data are not needed."""
    rng = random.Random(0)
    asked = [_run(rng, number) for number in range(runs)]
    with tempfile.TemporaryDirectory() as work:
        files = Path(work) / "runs"
        said = official(python, "terminal_bench.py", [str(files)], asked)
        with storage.open_catalog(storage.Home(Path(work) / "home")) as catalog:
            load(catalog, IMPORTERS["terminal-bench"](files, "runs"), "terminal-bench")
            return _compared(catalog, said)


def _run(rng: random.Random, number: int) -> dict[str, Any]:
    run, attempts = f"run-{number}", number % MOST_ATTEMPTS + 1
    trials = [
        _trial(rng, f"task-{task}", f"task-{task}.{attempt}-of-{attempts}.{run}")
        for task in range(TASKS)
        for attempt in range(1, attempts + 1)
    ]
    rng.shuffle(trials)  # the program writes trials as they end
    return {"run": run, "trials": trials}


def _trial(rng: random.Random, task: str, name: str) -> dict[str, Any]:
    mode = rng.choice(MODES)
    resolved = None if mode in UNTESTED else rng.choice((True, False, None))
    known: dict[str, Any] = {"trial_name": name, "task_id": task, "instruction": task}
    return known | {"failure_mode": mode, "is_resolved": resolved}


def _compared(catalog: storage.Catalog, said: list[dict[str, Any]]) -> Agreement:
    found = Agreement()
    with closing(storage.connect(catalog.home)) as connection:
        for one in said:
            run = one["run"]
            (row,) = connection.execute(RESULTS_SQL, [run]).fetchall()
            found.add("n_resolved", row[0], one["n_resolved"], run)
            found.add("accuracy", round(row[1], DIGITS), round(one["accuracy"], DIGITS), run)
            for k, value in one["pass_at_k"].items():
                (ours,) = connection.execute(PASS_SQL, {"run": run, "k": int(k)}).fetchall()
                found.add("pass_at_k", round(ours[0], DIGITS), round(value, DIGITS), f"{run} k={k}")
    return found
