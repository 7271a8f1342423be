"""API-Bank's kinds of errors: ``python api_bank_errors.py CHECKOUT < calls.jsonl``.

In and out as `api_bank.py`, with ``"kind"`` in each line in, by which calls are grouped, and
``{"error": kind or null}`` out. Runs the whole of ``evaluator_by_json.py`` over each group, with
its two paths replaced.
"""

import io
import json
import os
import sys
import tempfile
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

EMPTY = "googletrans sentence_transformers rank_bm25 nltk nltk.tokenize numpy tqdm utils".split()
EMPTY += ["requests", "openai"]
FOLDER, PREDICTIONS = "'lv1-lv2-samples/level-1-given-desc'", "'path-to-json'"
Key = tuple[str, int]
"""A dialogue's file name, and the number of its sample."""


def main(checkout: Path) -> None:
    """Read calls from stdin, and print what the evaluator counts each as."""
    os.chdir(checkout)
    sys.path.insert(0, str(checkout))
    for name in EMPTY:
        sys.modules[name] = MagicMock()
    sys.modules["tqdm"].tqdm = lambda rows, **_: rows  # type: ignore[attr-defined]
    asked = [json.loads(line) for line in sys.stdin]
    groups: dict[tuple[str, str], dict[Key, dict[str, Any]]] = {}
    for one in asked:
        file = Path(one["file"])
        sample = groups.setdefault((one["kind"], str(file.parent)), {})
        sample[file.name, _sample(file, one["line"])] = one
    for (_, folder), samples in groups.items():
        for key, error in _errors(checkout, folder, samples).items():
            samples[key]["error"] = error
    for one in asked:
        print(json.dumps({"error": one.get("error")}), flush=True)


def _sample(file: Path, line: int) -> int:
    """The number of a call's sample: each call before it has two, itself and its reply."""
    turns = [json.loads(row) for row in file.read_text("utf-8").splitlines()[: line - 1]]
    return 2 * [turn["role"] for turn in turns].count("API")


def _errors(checkout: Path, folder: str, samples: dict[Key, dict[str, Any]]) -> dict[Key, str]:
    rows = [{"file": file, "id": n, "pred": one["text"]} for (file, n), one in samples.items()]
    rows += [{"file": name, "id": -1, "pred": ""} for name in _names(Path(folder))]
    program = (checkout / "evaluator_by_json.py").read_text("utf-8")
    assert program.count(FOLDER) == program.count(PREDICTIONS) == 1, "another version of it"
    with tempfile.TemporaryDirectory() as place, redirect_stdout(io.StringIO()):
        written = Path(place) / "predictions.json"
        written.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
        program = program.replace(FOLDER, repr(folder)).replace(PREDICTIONS, repr(str(written)))
        known: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(program, "evaluator_by_json.py", "exec"), known)
    counted = known["error_statistic"].items()
    return {(s["file"], s["sample_id"]): kind for kind, all_ in counted for s in all_["samples"]}


def _names(folder: Path) -> Iterable[str]:
    """Its dialogues: the program wants a prediction for each."""
    return sorted(file.name for file in folder.glob("*.jsonl"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
