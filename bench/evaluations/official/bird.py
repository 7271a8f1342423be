"""BIRD's own evaluation programs over pairs of queries: ``python bird.py FOLDER < pairs.jsonl``.

FOLDER holds the programs of mini-dev (``evaluation_ex.py``, ``evaluation_f1.py``,
``evaluation_ves.py``) or the first one of 2023 (``evaluation.py``). In: lines ``{"database": path,
"gold": query, "given": query, "timeout_s": seconds}``, or ``{"times": [[gold_s, given_s], …]}`` for
the reward of a right query whose times these are. Out: a line each, ``{"ex", "f1"}`` as far as the
folder has the program, or ``{"r_ves"}``. Needs ``func_timeout`` and ``numpy``; the drivers of
MySQL and PostgreSQL are replaced by empty ones.
"""

import importlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

DRIVERS = ("psycopg2", "pymysql")
DIALECT = "SQLite"


def main(folder: Path) -> None:
    """Read pairs from stdin, and print what the programs say."""
    sys.path.insert(0, str(folder))
    for name in DRIVERS:
        sys.modules[name] = MagicMock()
    programs = {
        name: importlib.import_module(module)
        for name, module in (
            ("ex", "evaluation_ex"),
            ("f1", "evaluation_f1"),
            ("ves", "evaluation_ves"),
        )
        if (folder / "evaluation_ex.py").is_file()
    } or {"first": importlib.import_module("evaluation")}
    for line in sys.stdin:
        asked = json.loads(line)
        told = _reward(programs["ves"], asked) if "times" in asked else _scores(programs, asked)
        print(json.dumps(told), flush=True)
    os._exit(0)  # threads of queries that were too slow still run


def _scores(programs: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    pair = (asked["given"], asked["gold"], asked["database"], 0, asked["timeout_s"])
    told = {}
    if "first" in programs:
        told["ex"] = bool(programs["first"].execute_model(*pair)["res"])
    if "ex" in programs:
        told["ex"] = bool(programs["ex"].execute_model(*pair, DIALECT)["res"])
    if "f1" in programs:
        told["f1"] = programs["f1"].execute_model(*pair, DIALECT)["res"]
    return told


def _reward(program: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """The program times the predicted query first, then the gold one."""
    times: Iterator[float] = iter([s for gold, given in asked["times"] for s in (given, gold)])

    def execute(*_: Any, return_time: bool = False) -> Any:
        return next(times) if return_time else []

    program.execute_sql = execute
    rounds = len(asked["times"])
    told = program.execute_model("", "", "", 0, rounds, 600.0 / rounds, DIALECT)
    return {"r_ves": program.compute_ves([told])}


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
