"""BFCL's own checks of several turns: ``python bfcl_turns.py CATEGORY < answers.jsonl``.

In: lines ``{"id", "kind", "turns": [[calls of a step …] …]}``, each call as Python's text. Out: a
line each, ``{"correct": bool, "why": kind of error}``, from `multi_turn_checker` called directly.
Needs the package ``bfcl-eval`` with ``filelock`` and ``mpmath``.
"""

import importlib
import json
import os
import sys
import tempfile
from typing import Any


def main(category: str) -> None:
    """Read answers from stdin, and print what the checker says."""
    os.environ["BFCL_PROJECT_ROOT"] = tempfile.mkdtemp()
    checks: Any = importlib.import_module(
        "bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker"
    )
    data: Any = importlib.import_module("bfcl_eval.utils")
    gold = {one["id"]: one["ground_truth"] for one in data.load_ground_truth_entry(category)}
    tasks = {one["id"]: one for one in data.load_dataset_entry(category)}
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        task, right = tasks[asked["id"]], gold[asked["id"]]
        # The package keeps the state of a task's classes by the model's name.
        found = checks.multi_turn_checker(asked["turns"], right, task, category, asked["kind"])
        print(json.dumps({"correct": found["valid"], "why": found.get("error_type", "")}))


if __name__ == "__main__":
    main(sys.argv[1])
