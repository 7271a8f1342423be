"""EvalPlus's check: ``python evalplus.py DATA < solutions.jsonl``.

In: lines ``{"id": of the task, "code": text}``, and DATA, its release for HumanEval or MBPP. Out: a
line each, ``{"correct": bool}`` for base and plus together. Needs ``evalplus``, ``numpy``,
``psutil``, and for its conversion of MBPP's inputs what ``evalplus.data`` imports.
"""

import copy
import json
import sys
import time
from pathlib import Path
from typing import Any

FINDERS = ("check_str", "text_match_three", "text_starta_endb")  # compared with whether it is None


def main(data: Path) -> None:
    """Read solutions from stdin, and print what the check says."""
    sys.path.pop(0)  # this file's folder, where this file has the package's name
    from evalplus.eval import untrusted_check  # type: ignore[import-not-found]

    tasks = {row["task_id"]: row for row in map(json.loads, data.read_text("utf-8").splitlines())}
    expected: dict[str, tuple[list[Any], list[float]]] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        task = tasks[asked["id"]]
        inputs = [*task["base_input"], *task["plus_input"]]
        dataset = "mbpp" if asked["id"].startswith("Mbpp/") else "humaneval"
        if dataset == "mbpp":
            from evalplus.data.mbpp import mbpp_deserialize_inputs  # type: ignore[import-not-found]

            inputs = mbpp_deserialize_inputs(asked["id"], inputs)
        if asked["id"] not in expected:
            expected[asked["id"]] = _reference(task, inputs)
        wanted, seconds = expected[asked["id"]]
        found, _ = untrusted_check(
            *(dataset, asked["code"], inputs, task["entry_point"], wanted, task["atol"]),
            ref_time=seconds,
            fast_check=True,
        )
        print(json.dumps({"correct": found == "pass", "why": found}), flush=True)


def _reference(task: dict[str, Any], inputs: list[Any]) -> tuple[list[Any], list[float]]:
    inside: dict[str, Any] = {}
    exec(task["prompt"] + task["canonical_solution"], inside)
    results, seconds = [], []
    for given in inputs:
        start = time.perf_counter()
        result = inside[task["entry_point"]](*copy.deepcopy(given))
        results.append(result is not None if task["entry_point"] in FINDERS else result)
        seconds.append(time.perf_counter() - start)
    return results, seconds


if __name__ == "__main__":
    main(Path(sys.argv[1]))
