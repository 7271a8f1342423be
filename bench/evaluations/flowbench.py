"""FlowBench: `flowbench_turn` and the calls of `flowbench_session` beside its programs, mended.

FlowBench's data cannot be had. In: the Python that has ``pandas`` and ``regex``, and the checkout's
folder FlowBench. Out: the agreement over made-up turns (four figures each) and sessions. Both sides
have a judge that says yes to a prompt with `SAME`.
"""

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.evaluations.agreement import Agreement, official
from tutti.tasks.scoring import SCORERS, JudgeSettings, Score, ScoringResources, Submission

SAME = "sameish"
ROUNDS = 30
PROMPT = (
    "API: find finds\n\nAPI: buy buys\n\nAPI: call calls\n\nPlease note that the current time is: 9"
)
TEXTS = ("green tea", "Bergen, NO", "2024-02-03", f"{SAME} tea", "x")
VALUES: tuple[Any, ...] = (*TEXTS, 1, 2.5, True, ["a", "b"], "", [])
KINDS = (
    *("gold", "case", "longer", "punctuation", "judged", "other", "type", "without", "added"),
    *("name", "none", "reply", "surplus"),
)
Call = dict[str, Any]


class Judge:
    """Stands for the judge's model."""

    async def ask(
        self, prompt: str, seed: int, settings: JudgeSettings | None = None
    ) -> tuple[str, str]:
        """Yes or no, in the form of whichever scorer asks."""
        return "yes" if SAME in prompt.lower() else "no", "c"


def turns_and_sessions(python: str, checkout: Path) -> Agreement:
    """Every made-up turn, and sessions of three calls."""
    found = Agreement()
    _compare_turns(found, python, checkout)
    _compare_sessions(found, python, checkout)
    return found


def made_turns(rng: random.Random) -> Iterator[tuple[str, list[Call], list[Call]]]:
    """The kind of a turn, its gold calls, and those that are made."""
    for _ in range(ROUNDS):
        gold = made_call(rng)
        for kind in KINDS:
            wanted = [] if kind in ("reply", "surplus") else [gold]
            given = [] if kind in ("none", "reply") else [changed(gold, kind, rng)]
            yield kind, wanted, given


def made_call(rng: random.Random) -> Call:
    """A call with up to three arguments, and one that is text."""
    arguments = {name: rng.choice(VALUES) for name in rng.sample("abc", rng.randint(0, 3))}
    return {"name": rng.choice(("find", "buy")), "arguments": {"t": rng.choice(TEXTS), **arguments}}


def changed(call: Call, kind: str, rng: random.Random) -> Call:
    """The call with one change of `kind`."""
    arguments, name = dict(call["arguments"]), rng.choice(sorted(call["arguments"]))
    text = arguments["t"]
    texts = {
        "case": text.upper(),
        "longer": f"the {text} please",
        "punctuation": f"{text.replace(' ', '-')}!",
        "judged": f"{SAME}, in other words",
        "other": "something else",
    }
    if kind in texts:
        arguments["t"] = texts[kind]
    if kind == "type":
        arguments[name] = {"no": 1} if isinstance(arguments[name], str) else "text"
    if kind == "without":
        del arguments[name]
    if kind == "added":
        arguments["z"] = 1
    return {"name": "call" if kind == "name" else call["name"], "arguments": arguments}


def _compare_turns(found: Agreement, python: str, checkout: Path) -> None:
    cases = list(made_turns(random.Random(1)))
    asked = [{"row": _row(n, gold, made)} for n, (_, gold, made) in enumerate(cases)]
    said = official(python, "flowbench.py", [str(checkout)], asked)
    for (kind, gold, made), its in zip(cases, said, strict=True):
        counts = asyncio.run(_scored("flowbench_turn", {"calls": gold}, made)).detail
        for figure, over in (("pre", "predicted"), ("rec", "gold")):
            for part, name in (("call", "calls"), ("params", "parameters")):
                # -1 where nothing is to be divided by, as the program has it
                mine = counts[f"right_{name}"] / (counts[f"{over}_{name}"] or -1)
                what = f"{part} {gold} {made}"
                found.add(f"turn {kind}", mine, its[f"{part}_{figure}"], what)


def _compare_sessions(found: Agreement, python: str, checkout: Path) -> None:
    rng, cases = random.Random(2), []
    for _ in range(ROUNDS * 10):
        gold = [made_call(rng) for _ in range(3)]
        kinds = [kind for kind in KINDS if kind not in ("none", "reply", "surplus")]
        cases.append((gold, [changed(one, rng.choice(kinds), rng) for one in gold]))
    asked = [
        {"gold": _actions(gold), "made": _actions(made), "prompt": PROMPT} for gold, made in cases
    ]
    said = official(python, "flowbench.py", [str(checkout)], asked)
    for (gold, made), its in zip(cases, said, strict=True):
        target = {"calls": gold, "aim": "a", "workflow": "w"}
        counts = asyncio.run(_scored("flowbench_session", target, made)).detail
        found.add("session", counts["right_calls"], its["right"], f"{gold} {made}")


def _row(number: int, gold: list[Call], made: list[Call]) -> dict[str, Any]:
    thought = {}
    if gold:
        arguments = json.dumps(gold[0]["arguments"])
        thought = {"Action": gold[0]["name"], "Action Input": arguments}
    messages = [{"role": "system", "content": PROMPT}]
    row = {"id": f"s{number}_agent_turn1", "messages": messages, "gt_thought": thought}
    said = f"Thought: so.\n{_actions(made)}\n" if made else "Thought: so.\nResponse: Hello."
    return row | {"gt_response": "", "predict": said}


def _actions(calls: list[Call]) -> str:
    return "\n\n".join(
        f"Action: {one['name']}\nAction Input: {json.dumps(one['arguments'])}" for one in calls
    )


async def _scored(scorer: str, target: dict[str, Any], made: list[Call]) -> Score:
    message = {"role": "assistant", "content": None, "tool_calls": made}
    means = ScoringResources(judge=Judge())
    return await SCORERS[scorer].score(target, Submission(None, "", [message]), means)
