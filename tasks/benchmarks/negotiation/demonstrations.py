"""Conversations of a strategist that draws its strategies, to teach a small model the form.

Strategies are drawn uniformly, so that none is taught to be better. Run ``python -m
tutti.tasks.benchmarks.negotiation.demonstrations FILE``.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from tutti.tasks.benchmarks.negotiation.bargain import Bargain, answer
from tutti.tasks.benchmarks.negotiation.drawing import SEED, drawn_split
from tutti.tasks.benchmarks.negotiation.scenario import Scenario
from tutti.tasks.benchmarks.negotiation.view import STRATEGIES, View, moves

Message = dict[str, Any]


def conversation(scenario: Scenario, draw: Random) -> list[Message]:
    """One negotiation from the strategist's side, up to its last strategy."""
    made = Bargain(scenario)
    view = View(made, "own")
    messages = [{"role": "system", "content": view.facts}]
    heard = f"{view.strategies} {view.status}"
    while made.ended is None:
        strategy = draw.choice(list(STRATEGIES))
        messages += [{"role": "user", "content": heard}, {"role": "assistant", "content": strategy}]
        made.play("own", draw.choice(moves(scenario.own, strategy, view.standing)))
        if made.ended is None:
            made.play("other", answer(scenario, made.offers).move)
        heard = view.last_moves
    return messages


def conversations(times: int = 2, seed: int = SEED) -> Iterator[list[Message]]:
    """Yield `times` conversations for each scenario of the split train."""
    draw = Random(f"{seed} demonstrations")
    for _ in range(times):
        for scenario in drawn_split("train"):
            yield conversation(scenario, draw)


if __name__ == "__main__":
    lines = [json.dumps({"messages": each}) + "\n" for each in conversations()]
    Path(sys.argv[1]).write_text("".join(lines), encoding="utf-8")
