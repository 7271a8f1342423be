"""Policy jobs on files of sums, and the files that a backend writes for them."""

import json
from pathlib import Path
from typing import Any

from tutti.tasks.platform.project import MODELS
from tutti.tasks.serving.registry import read_registry
from tutti.tasks.training import configure_policy
from tutti.tasks.training.policy import PolicyJob

BASE = read_registry(MODELS)["pocket"]


def job(folder: Path, **fields: Any) -> PolicyJob:
    """Return a job that every backend can write: 6 sums to train on and 3 held out."""
    suites = []
    for name, first, count in (("train", 0, 6), ("held_out", 100, 3)):
        file = folder / f"{name}.jsonl"
        rows = (
            {"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(first, first + count)
        )
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        suite: dict[str, Any] = {"benchmark": str(file), "data": {"scorer": "numeric"}}
        suite |= {"policies": ["passthrough"], "concurrency": [2]}
        suites.append(suite | {"sampling": {"temperature": 1.0, "max_tokens": 64}})
    known: dict[str, Any] = {"name": "sums", "base": "pocket", "steps": 10, "batch_tokens": 1024}
    known |= {"suite": suites[0], "rollouts": {"groups": 4, "group_size": 8, "staleness": 0}}
    known |= {"evaluation": {"suite": suites[1]}}
    return PolicyJob.model_validate(known | fields)


def written(given: PolicyJob, backend: str, out: Path) -> dict[str, Any]:
    return configure_policy(given, backend, BASE, out)
