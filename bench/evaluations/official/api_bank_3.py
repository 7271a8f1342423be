"""API-Bank's own evaluator of level 3: ``python api_bank_3.py CHECKOUT LEVEL-3.json < rows.jsonl``.

In: calls, lines ``{"kind", "sample_id", "api_id", "pred"}``, or replies, ``{"output", "pred"}``.
Out: a line each, ``{"correct": bool, "why"}`` or ``{"score"}``. The whole of ``lv3_evaluator.py``
runs over the calls of each kind in their order, with one ToolManager as there, with its two paths
replaced. Where it stops at a call, that call is wrong, and it runs again without it. Its embedding
model is replaced by the `Trigrams` of `deployments/harnesses/api_bank_calls.py`.
"""

import importlib.util
import io
import json
import logging
import os
import sys
import tempfile
import traceback
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

EMPTY = "googletrans rank_bm25 nltk nltk.tokenize numpy tqdm".split()
HARNESS = Path(__file__).parents[3] / "deployments" / "harnesses" / "api_bank_calls.py"
CALLS, PREDICTIONS, GOLD = "if_api = False", "'path-to-json'", "'test_data/level-3.json'"


def main(checkout: Path, gold: Path) -> None:
    """Read rows from stdin, and print what the evaluator says."""
    os.chdir(checkout)
    sys.path.insert(0, str(checkout))
    sys.dont_write_bytecode = True
    for name in EMPTY:
        sys.modules[name] = MagicMock()
    spec = importlib.util.spec_from_file_location("api_bank_calls", HARNESS)
    assert spec is not None and spec.loader is not None, HARNESS
    harness = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(harness)
    harness.use_trigrams()
    program = Path("lv3_evaluator.py").read_text("utf-8")
    assert all(program.count(each) == 1 for each in (PREDICTIONS, GOLD)), "another version of it"
    program = program.replace(GOLD, repr(str(gold)))
    rows = [json.loads(line) for line in sys.stdin]
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if "kind" in row:
            groups.setdefault(row["kind"], []).append(row)
        else:
            row["said"] = {"score": round(float(_run(program, [row]).split(": ")[1]), 4)}
    for group in groups.values():
        _judge(program.replace("\n" + 4 * " " + CALLS, "\n    if_api = True"), group)
    for row in rows:
        print(json.dumps(row["said"]), flush=True)


def _judge(program: str, rows: list[dict[str, Any]]) -> None:
    """Put a verdict into each row."""
    left = rows
    while left:
        said = _Warnings()
        logging.getLogger().handlers = [said]
        stopped = None
        try:
            _run(program, left)
        except Exception as error:
            stopped = _place(error)
            left[stopped]["said"] = {"correct": False, "why": f"stops: {error!r}"[:200]}
        if stopped is None:
            for place, row in enumerate(left):
                why = said.of.get(place)
                row["said"] = {"correct": why is None, "why": why or ""}
            return
        left = left[:stopped] + left[stopped + 1 :]


class _Warnings(logging.Handler):
    """By a call's place, what the evaluator said of it: each line ends with the place."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[int, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        text = record.getMessage()
        self.of[int(text.split()[-1])] = text


def _place(error: Exception) -> int:
    """The number of the call at which the evaluator stopped."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return int(next(f.f_locals["pred_id"] for f in frames if "pred_id" in f.f_locals))


def _run(program: str, rows: list[dict[str, Any]]) -> str:
    """What the evaluator prints."""
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as printed:
        written = Path(folder) / "predictions.json"
        written.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
        known: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(program.replace(PREDICTIONS, repr(str(written))), "lv3", "exec"), known)
    return printed.getvalue()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
