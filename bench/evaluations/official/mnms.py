"""m&m's own programs: ``python mnms.py CHECKOUT < answers.jsonl``.

In: ``{"gold": [rows], "answers": [text], "format": "json" or "code", "read": true}``. Out:
``{"figures": {metric: value}}`` by `MNMEvaluator` over all answers of a line. With ``read``, an
answer is read as the published agent reads a reply (`parser.py`), else it is JSON text of a plan.
With ``nearest``, the evaluator's ``use_best_match``. Needs ``scikit-learn``, ``Levenshtein`` and
``pandas``; what executes plans and compares images is not imported. Where the evaluator ends in an
error (``f(**x)`` in a program; no step on either side with ``nearest``): ``{"stopped": why}``.
"""

import json
import sys
import warnings
from contextlib import redirect_stdout
from io import StringIO
from typing import Any
from unittest.mock import MagicMock

UNUSED = (
    *("torch", "open_clip", "PIL", "nltk", "nltk.translate", "nltk.translate.bleu_score"),
    *("skimage", "skimage.metrics", "pycocotools", "pycocotools.coco", "pycocotools.cocoeval"),
    *("datasets", "tqdm"),
)


def main(checkout: str) -> None:
    """Read answers from stdin, and print what the programs say."""
    warnings.simplefilter("ignore")
    sys.path.insert(0, checkout)
    import pandas  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: F401
    import sklearn.metrics  # type: ignore[import-not-found,unused-ignore]  # noqa: F401

    stubs = {name: MagicMock() for name in UNUSED if name not in sys.modules}
    sys.modules |= stubs
    from mnms import parser  # type: ignore[import-not-found]
    from mnms.evaluation import evaluator  # type: ignore[import-not-found]

    for name in stubs:  # else scikit-learn asks them whether its arrays are theirs
        del sys.modules[name]
    for line in sys.stdin:
        asked = json.loads(line)
        with redirect_stdout(StringIO()):
            told = _evaluated(parser, evaluator.MNMEvaluator, asked)
        print(json.dumps(told), flush=True)


def _evaluated(parser: Any, evaluator: Any, asked: dict[str, Any]) -> dict[str, Any]:
    made = [
        {"id": row["id"], "prediction": _prediction(parser, answer, asked)}
        for row, answer in zip(asked["gold"], asked["answers"], strict=True)
    ]
    program = evaluator(
        asked["gold"],
        made,
        "gt",
        asked["format"],
        use_best_match=asked.get("nearest", False),
    )
    try:
        table, _ = program.evaluate()
    except (TypeError, ValueError) as error:
        return {"stopped": str(error)}
    return {"figures": dict(zip(table["metric"], map(float, table["value"]), strict=True))}


def _prediction(parser: Any, answer: str, asked: dict[str, Any]) -> Any:
    if not asked["read"]:
        return json.loads(answer)
    kind = parser.CodeParser if asked["format"] == "code" else parser.Parser
    found = kind("multi-step").parse(answer)
    return found["content"] if found["status"] else []  # as the agent, whose plan stays empty


if __name__ == "__main__":
    main(sys.argv[1])
