"""NeMo-Skills' own metrics of a benchmark: ``python nemo_metrics.py CHECKOUT < asked.jsonl``.

In: CHECKOUT, of NVIDIA/NeMo-Skills, and lines ``{"metrics": "math"|"simpleqa", "tasks": [[row of a
seed, …], …]}``. Out: a line each, the blocks of ``metrics.json``. Needs numpy: of NeMo-Skills only
the modules that compute are loaded.
"""

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

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
            metrics.update(rows)
        blocks = metrics.get_metrics()
        blocks.pop("pass@1[avg-of-1]", None)  # as its compute_metrics.py does
        print(json.dumps(blocks))


if __name__ == "__main__":
    main(sys.argv[1])
