"""BFCL's own syntax-tree check: ``python bfcl.py CATEGORY < answers.jsonl``.

In: lines ``{"id": of the item, "calls": [{name: {argument: value}}]}``. Out: a line each,
``{"correct": bool, "why": kind of error}``. Needs the package ``bfcl-eval`` alone: the models'
clients, which its checker imports for one flag, are replaced.
"""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

MODEL = "any"


def main(category: str) -> None:
    """Read answers from stdin, and print what the checker says."""
    models: Any = ModuleType("bfcl_eval.constants.model_config")
    models.MODEL_CONFIG_MAPPING = {MODEL: SimpleNamespace(underscore_to_dot=True)}
    sys.modules[models.__name__] = models
    import bfcl_eval
    from bfcl_eval.constants.enums import Language
    from bfcl_eval.eval_checker.ast_eval.ast_checker import (
        ast_checker,
    )

    data = Path(bfcl_eval.__file__).parent / "data"
    questions = _rows(data / f"BFCL_v4_{category}.json")
    gold = _rows(data / "possible_answer" / f"BFCL_v4_{category}.json")
    language = {"simple_java": Language.JAVA, "simple_javascript": Language.JAVASCRIPT}.get(
        category, Language.PYTHON
    )
    for line in sys.stdin:
        asked = json.loads(line)
        functions = questions[asked["id"]]["function"]
        right = gold[asked["id"]]["ground_truth"]
        try:
            found = ast_checker(functions, asked["calls"], right, language, category, MODEL)
        except (AttributeError, KeyError, IndexError, TypeError) as error:
            found = {"valid": False, "error_type": f"{type(error).__name__}: {error}"}
        print(json.dumps({"correct": found["valid"], "why": found.get("error_type", "")}))


def _rows(file: Path) -> dict[str, Any]:
    rows = (json.loads(line) for line in file.read_text("utf-8").splitlines())
    return {row["id"]: row for row in rows}


if __name__ == "__main__":
    main(sys.argv[1])
