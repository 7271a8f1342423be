"""FlowBench's own programs: ``python flowbench.py CHECKOUT < answers.jsonl``, its folder FlowBench.

In: ``{"row": a turn with its "predict"}`` or ``{"gold": actions, "made": actions, "prompt": text}``
of a session. Out: ``{"call_pre", "call_rec", "params_pre", "params_rec"}`` by
`turn_metric_display.py`, or ``{"right": calls}`` by the comparison of `eval_utils.py`, counted as
`session_simulate.py` does. Needs ``pandas`` and ``regex``.

Mended, because they do not run as published: `turn_metric_display.py` imports two functions that
`request_openai.py` does not have (line 14), and `equal_actions` uses two names that are nowhere
defined, ``string`` and ``llm``. The model is a judge that says yes to a prompt with `SAME`.
"""

import io
import json
import string
import sys
import tempfile
from ast import literal_eval
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

SAME = "sameish"


class Judge:
    """Stands for the model."""

    def infer_single_turn(self, prompt: str) -> str:
        """Yes or no."""
        return "yes" if SAME in prompt.lower() else "no"


def main(checkout: Path) -> None:
    """Read answers from stdin, and print what the programs say."""
    sys.path[:0] = [str(checkout), str(checkout / "turn_level")]
    model: Any = ModuleType("utils.llm")
    model.GPT = Judge
    common: Any = ModuleType("utils.utils")
    common.json, common.List = json, list
    sys.modules |= {"utils.llm": model, "utils.utils": common}
    for name in ("xlsxwriter", "utils.request_openai"):
        sys.modules[name] = MagicMock()
    import turn_metric_display  # type: ignore[import-not-found]
    from utils import eval_utils  # type: ignore[import-not-found]

    eval_utils.string, eval_utils.llm = string, Judge()
    for line in sys.stdin:
        asked = json.loads(line)
        told = _turn(turn_metric_display, asked) if "row" in asked else _session(eval_utils, asked)
        print(json.dumps(told), flush=True)


def _turn(program: Any, asked: dict[str, Any]) -> dict[str, float]:
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as place, redirect_stdout(printed):
        (Path(place) / "turn.jsonl").write_text(json.dumps(asked["row"]) + "\n", "utf-8")
        program.compute_turn_metrics(place)
    told = next(line for line in printed.getvalue().splitlines() if line.startswith("{'scenario'"))
    figures = literal_eval(told)
    return {name.removeprefix("turn_"): figures[name] for name in figures if name != "scenario"}


def _session(program: Any, asked: dict[str, Any]) -> dict[str, int]:
    gold, made = (asked[name].strip().split("\n\n") for name in ("gold", "made"))
    right = [any(program.equal_actions(g, m, asked["prompt"]) for m in made) for g in gold]
    return {"right": sum(right)}


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
