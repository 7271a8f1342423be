"""API-Bank's own evaluator over calls: ``python api_bank.py CHECKOUT < calls.jsonl``.

In: lines ``{"file": path below CHECKOUT, "line": number of the gold call, "text": the answer}``.
Out: a line each, ``{"correct": bool}``, with ``"why"``. Runs with Python and the package ``rouge``;
packages that need a network (translation, embeddings) are replaced by empty ones.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

EMPTY = "googletrans sentence_transformers rank_bm25 nltk nltk.tokenize numpy tqdm utils".split()
EMPTY += ["requests", "openai"]


def main(checkout: Path) -> None:
    """Read calls from stdin, and print what the evaluator says."""
    os.chdir(checkout)
    sys.path.insert(0, str(checkout))
    for name in EMPTY:
        sys.modules[name] = MagicMock()
    import evaluator  # type: ignore[import-not-found]

    dialogues: dict[str, list[dict[str, Any]]] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        file = asked["file"]
        if file not in dialogues:
            rows = Path(file).read_text("utf-8").splitlines()
            dialogues[file] = [json.loads(row) for row in rows]
        gold = dialogues[file][asked["line"] - 1]
        sample = evaluator.Sample([], set(), json.loads(json.dumps(gold)))
        print(json.dumps(_said(evaluator, sample, asked["text"])), flush=True)


def _said(evaluator: Any, sample: Any, text: str) -> dict[str, Any]:
    if sample.ground_truth["role"] == "AI":
        score = evaluator.Evaluator([sample]).evaluate(0, text) if text else 0
        return {"score": score}
    if evaluator.get_api_call(text) is None:
        return {"correct": False, "why": "no call"}
    try:
        correct, result = evaluator.Evaluator([sample]).evaluate(0, text)
    except ImportError:
        raise
    except Exception as error:  # the evaluator's own crash: its programs count it as wrong
        return {"correct": False, "why": f"{type(error).__name__}: {error}"}
    return {"correct": bool(correct), "why": str(result)[:300]}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
