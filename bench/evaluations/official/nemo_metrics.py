"""NeMo-Skills' own metrics of a benchmark: ``python nemo_metrics.py CHECKOUT < asked.jsonl``.

In: CHECKOUT, of NVIDIA/NeMo-Skills, and lines ``{"metrics": "math"|"simpleqa", "tasks": [[row of a
seed, …], …], "graded": bool}``. Out: a line each, the blocks of ``metrics.json``. Rows that are not
graded have a `generation` and an `expected_answer`, for NeMo-Skills' own grader. Needs numpy, and
math-verify to grade: of NeMo-Skills only the modules that compute are loaded.
"""

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

CLASSES = {
    "math": ("math_metrics", "MathMetrics"),
    "simpleqa": ("simpleqa_metrics", "SimpleQAMetrics"),
}


def main(checkout: str) -> None:
    """Read from stdin, and print what NeMo-Skills computes."""
    package = Path(checkout, "nemo_skills")
    for name, folder in (
        ("nemo_skills", package),
        ("nemo_skills.evaluation", package / "evaluation"),
        ("nemo_skills.evaluation.metrics", package / "evaluation" / "metrics"),
    ):
        module = ModuleType(name)  # without the code of __init__, which imports all it has
        module.__path__ = [str(folder)]
        sys.modules[name] = module
    utils = ModuleType("nemo_skills.utils")
    vars(utils)["get_logger_name"] = lambda file: file
    sys.modules["nemo_skills.utils"] = utils
    for line in sys.stdin:
        asked = json.loads(line)
        module_name, class_name = CLASSES[asked["metrics"]]
        module = importlib.import_module(f"nemo_skills.evaluation.metrics.{module_name}")
        metrics = getattr(module, class_name)()
        for rows in asked["tasks"]:
            metrics.update(rows if asked["graded"] else [_graded(row) for row in rows])
        blocks = metrics.get_metrics()
        blocks.pop("pass@1[avg-of-1]", None)  # as its compute_metrics.py does
        print(json.dumps(blocks))


def _graded(row: dict[str, Any]) -> dict[str, Any]:
    """The row with the answer that NeMo-Skills extracts, and its verdict."""
    grader = importlib.import_module("nemo_skills.evaluation.math_grader")
    answer = grader.extract_answer(row["generation"])
    correct = grader.math_equal(row["expected_answer"], answer)
    return row | {"predicted_answer": answer, "symbolic_correct": correct}


if __name__ == "__main__":
    main(sys.argv[1])
