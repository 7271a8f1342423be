"""NeMo-Skills' ``metrics.json``: our figures beside its own.

In: a Python with numpy, and a checkout of NVIDIA/NeMo-Skills. Out: the agreement, figure by figure
to nine digits; a figure that one of the two lacks differs. `figures` makes up the rows of
benchmarks; `measured` has them of a sweep: `tutti run` asks an endpoint whose replies are right,
wrong or without an answer, and `tutti export` writes the rows; NeMo-Skills' own grader and metrics
read the same generations.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.evaluations.agreement import TIMEOUT_S, Agreement, official
from bench.evaluations.bfcl_player import replying
from tutti.tasks.exchange.nemo_skills import BenchmarkMetrics

Tasks = list[list[dict[str, Any]]]
KINDS = ("math", "judge", "simpleqa")
SETS, SEED = 100, 5
TASKS, TRIALS = 200, 4


def figures(python: str, checkout: Path, sets: int = SETS) -> Agreement:
    """Every figure of `sets` benchmarks of each kind."""
    rng, found = random.Random(SEED), Agreement()
    made = [(kind, _tasks(rng, kind)) for kind in KINDS for _ in range(sets)]
    asked = [
        {
            "metrics": "simpleqa" if kind == "simpleqa" else "math",
            "tasks": tasks,
            "graded": True,
        }
        for kind, tasks in made
    ]
    said = official(python, "nemo_metrics.py", [str(checkout)], asked)
    for (kind, tasks), its in zip(made, said, strict=True):
        metrics = BenchmarkMetrics()
        for rows in tasks:
            metrics.add([row | _judged(row) for row in rows])
        ours, theirs = dict(_flat(metrics.blocks())), dict(_flat(its))
        for name in sorted(ours.keys() | theirs.keys()):
            found.add(kind, ours.get(name), theirs.get(name), f"{len(tasks[0])} seeds, {name}")
    return found


def measured(python: str, checkout: Path, tasks: int = TASKS, trials: int = TRIALS) -> Agreement:
    """Every figure of a sweep over `tasks` questions, and majority@`trials` by tutti's macro."""
    with tempfile.TemporaryDirectory() as folder, replying(_reply) as url:
        questions = Path(folder, "votes.jsonl")
        rows = [{"question": f"Task {n}?", "answer": str(n)} for n in range(tasks)]
        questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
        named = ["--scorer", "math", "--trials", str(trials), "--temperature", "1"]
        _tutti(folder, "run", questions, "--model", url, "--name", "votes", *named)
        _tutti(folder, "export", "nemo-skills", "--sweep", "votes", "--out", "out")
        sql = f"select value from majority_at_k('votes', {trials})"
        ((value,),) = (row.values() for row in json.loads(_tutti(folder, "sql", "--json", sql)))
        results = Path(folder, "out", "eval-results")
        (name, ours), *_ = json.loads((results / "metrics.json").read_text()).items()
        files = [results / name / f"output-rs{seed}.jsonl" for seed in range(trials)]
        seeds = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    its_tasks = [list(rows) for rows in zip(*seeds, strict=True)]
    asked = [{"metrics": "math", "tasks": its_tasks, "graded": False}]
    (its,) = official(python, "nemo_metrics.py", [str(checkout)], asked)
    found, mine, theirs = Agreement(), dict(_flat(ours)), dict(_flat(its))
    for figure in sorted(mine.keys() | theirs.keys()):
        found.add("measured", mine.get(figure), theirs.get(figure), figure)
    voted = f"majority@{trials}/symbolic_correct"
    found.add("macro", round(100 * value, 9), theirs[voted], voted)
    return found


def _reply(body: Mapping[str, Any]) -> dict[str, Any]:
    """A message that is right for half of the questions and seeds, else wrong, or (a ninth of
    them) without an answer."""
    words = str(body["messages"][-1]["content"]).replace("?", " ").split()
    number = next((int(word) for word in words if word.isdigit()), 0)
    draw = random.Random(f"{number} {body.get('seed')}").random()
    said = number if draw < 0.5 else number + (1 if draw < 0.7 else 2)
    given = f"So it is \\boxed{{{said}}}, by {len(words)} steps."
    return {"role": "assistant", "content": given if draw < 0.89 else "I cannot tell."}


def _tutti(folder: str, *arguments: str | Path) -> str:
    """What a command of tutti prints, with its store in the folder. Raises RuntimeError."""
    done = subprocess.run(
        [sys.executable, "-m", "tutti.cli.main", *map(str, arguments)],
        cwd=folder,
        env=os.environ | {"TUTTI_HOME": str(Path(folder, "home"))},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"tutti {arguments[0]}: {done.stdout}{done.stderr}")
    return done.stdout


def _tasks(rng: random.Random, kind: str) -> Tasks:
    """One to thirty tasks with one to six seeds each."""
    seeds = rng.randint(1, 6)
    return [[_row(rng, kind) for _ in range(seeds)] for _ in range(rng.randint(1, 30))]


def _row(rng: random.Random, kind: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "predicted_answer": rng.choice(["3", "4", "5", None]),
        "num_generated_tokens": rng.randint(1, 900),
    }
    if kind == "math":
        return row | {"symbolic_correct": rng.random() < 0.5}
    verdicts = "AABC" if kind == "simpleqa" else ("Judgement: Yes", "Judgement: No")
    return row | {"judgement": rng.choice(verdicts)}


def _judged(row: Mapping[str, Any]) -> dict[str, bool]:
    """What our export says beside a judgement."""
    judgement = row.get("judgement", "")
    return {"judge_correct": "Yes" in judgement} if judgement.startswith("Judgement") else {}


def _flat(block: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, float]]:
    for name, value in block.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}/")
        else:
            yield f"{before}{name}", round(float(value), 9)
