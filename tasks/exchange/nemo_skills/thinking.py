"""Parallel thinking in NeMo-Skills' rows: several solutions of a problem, and one made of them.

In: a row with `solution_list`. Out: the runs and the call that tutti's own parallel thinking
stores: a run `solution` each, one `select` or `synthesis` with the combining call's text, and that
call with its tokens. The row's `num_generated_tokens` is the sum over all calls and stays the
attempt's. Solutions were made in calls that the row does not have, so their tokens are only known
together; the row does not name the one that was taken, so it is told by its text.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tutti.tasks.exchange.fields import Fields, compact
from tutti.tasks.exchange.imported import Row

MODES = {"genselect": ("select", "selector"), "gensynthesis": ("synthesis", "synthesizer")}
"""Their mode: our run's name, and the role of the combining call."""
SUMS = frozenset({"completion_tokens", "prompt_tokens", "latency_s", "logprobs"})
SUMS |= {"sent_at", "admitted_at", "ended_at"}
"""Figures that a row has for all calls together."""
THINKING = (
    "_generation_finished_thinking",
    "genselect_successful",
    "gensynthesis_successful",
    "total_solution_generated_tokens",
    "num_best_solution_generated_tokens",
)
"""Fields without a column here."""


@dataclass(frozen=True)
class ParallelThinking:
    """What a row says of its solutions and of the call that combined them."""

    runs: list[Row]
    combining_call: Row | None
    """None where nothing was asked: there was no solution."""

    def calls(self, found: Sequence[Row]) -> list[Row]:
        """The answer's call, without the figures that are of all, and the combining one."""
        kept = [{name: call[name] for name in call.keys() - SUMS} for call in found]
        return [*kept, self.combining_call] if self.combining_call is not None else kept


def parallel_thinking(fields: Fields) -> ParallelThinking | None:
    """What the row says of it; None for a row without."""
    mode = next((mode for mode in MODES if f"{mode}_comparison" in fields), None)
    if mode is None or not isinstance(fields.data.get("solution_list"), list):
        return None
    combine, role = MODES[mode]
    solutions = fields.array("solution_list")
    if not all(isinstance(text, str) for text in solutions):
        fields.wrong("solution_list", "a list of texts")
        return None
    said = fields.text(f"{mode}_comparison")
    runs = [
        _run("solution", {"number": number}, text, "ok") for number, text in enumerate(solutions)
    ]
    if not solutions:
        return ParallelThinking(runs, None)
    worked = fields.flag(f"{mode}_successful")
    error = {"error_type": "no_verdict"} if worked is False else {}
    answer = fields.text("generation")
    taken = {"taken": solutions.index(answer)} if answer in solutions else {}
    status = "error" if error else "ok"
    runs.append(_run(combine, taken, said or "", status) | error)
    tokens = fields.count(f"{mode}_num_generated_tokens")
    call: Row = {"call_id": "call-combine", "step": 1, "role": role, "status": "ok"}
    return ParallelThinking(runs, call | compact(completion_tokens=tokens))


def _run(name: str, arguments: dict[str, int], result: str, status: str) -> Row:
    return {
        "step": 1,
        "name": name,
        "arguments": json.dumps(arguments),
        "result": result,
        "status": status,
    }
