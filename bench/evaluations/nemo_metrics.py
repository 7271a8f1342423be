"""NeMo-Skills' ``metrics.json``: our figures beside its own, of made-up benchmarks.

In: a Python with numpy, and a checkout of NVIDIA/NeMo-Skills. Out: the agreement, figure by figure
to nine digits; a figure that one of the two lacks differs.
"""

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.evaluations.agreement import Agreement, official
from tutti.storage.exchange.nemo_skills import BenchmarkMetrics

Tasks = list[list[dict[str, Any]]]
KINDS = ("math", "judge", "simpleqa")
SETS, SEED = 100, 5


def figures(python: str, checkout: Path, sets: int = SETS) -> Agreement:
    """Every figure of `sets` benchmarks of each kind."""
    rng, found = random.Random(SEED), Agreement()
    made = [(kind, _tasks(rng, kind)) for kind in KINDS for _ in range(sets)]
    asked = [
        {"metrics": "simpleqa" if kind == "simpleqa" else "math", "tasks": tasks}
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
