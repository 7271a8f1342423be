"""m&m's: scorer `mnms` and the report's figures beside the publisher's evaluator and parser.

Its data are on the Hub only, so plans are made up in their format. In: the Python that has
``scikit-learn``, ``Levenshtein`` and ``pandas``, and a checkout of RAIVNLab/mnms. Out: the
agreement. A verdict is all 16 figures of the evaluator, to its two digits, over one answer and a
right one beside it (its F1 ends in an error where no plan has two steps); ``all`` is one over all
answers of a kind. ``plan`` gives both sides the plan, ``reply`` the reply, ``nearest`` alternative
plans too. Answers at which the evaluator stops are no part of the comparison.
"""

import asyncio
import json
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.evaluations.agreement import Agreement, official
from tutti.tasks.benchmarks import Source, Task, benchmark_named
from tutti.tasks.benchmarks.mnms import TOOLS
from tutti.tasks.reporting.measures.named import plan_measures
from tutti.tasks.scoring import SCORERS, ScoringResources, Submission
from tutti.tasks.scoring.published import code_of

ROUNDS = 40
PLAIN: tuple[Any, ...] = (
    *("a.jpg", "1995-0002.flac", "Bergen, NO", "it's", "naïve 東京", "100 %", "{braces}", "2/7"),
    *(1999, 2.5, True, ["a", "b"], {"k": "v"}),
)
ESCAPED: tuple[Any, ...] = ('He said "so"', "line\nbreak", "back\\slash")
KINDS = (
    *("gold", "tool", "unknown", "case", "value", "without", "added", "dropped", "further"),
    *("doubled", "swapped", "order", "many", "none", "id", "name", "spaces", "nonsense"),
    *("braces", "doubled braces", "reference"),
)
REPLIES = {
    "plain": "{}",
    "prose": "Here is the plan:\n\n{}\n\nIt uses few tools.",
    "mark": "GOAL. # RESULT #: {}",
    "two": "{}\n\n# RESULT #: {}",
    **dict.fromkeys(("underscores", "indented", "cut", "list", "unfenced", "other fence"), "{}"),
}
PROGRAMS = (
    *("gold", "lines", "f-string", "two lines", "positional", "joined", "syntax", "returns"),
    *("comment", "typed", "starred", "method", "literal", "none"),
)
Plan = list[dict[str, Any]]
Answer = tuple[str, Plan, str]
"""Kind, gold plan, and reply."""
PAD: Plan = [
    {"id": 0, "name": "image captioning", "args": {"image": "a.jpg"}},
    {"id": 1, "name": "text generation", "args": {"text": "<node-0>.text"}},
]


def plans(python: str, checkout: Path, rounds: int = ROUNDS) -> Agreement:
    """Plans in both forms, replies in both, and plans with alternatives."""
    found, rng = Agreement(), random.Random(1)
    golds = [made_plan(rng, PLAIN + ESCAPED) for _ in range(rounds)]
    plain, escaped = ([made_plan(rng, v) for _ in range(rounds)] for v in (PLAIN, ESCAPED))
    changes, others = (
        [(kind, gold, _json(changed(gold, kind, rng))) for gold in some for kind in KINDS]
        for some in (golds, plain)
    )
    replies: dict[str, list[Answer]] = {"json": [], "code": []}
    for gold in plain:
        programs = {kind: _fenced(program(gold, kind, rng)) for kind in PROGRAMS}
        replies["code"] += [(kind, gold, text) for kind, text in programs.items()]
        for form, text in (("json", _json(gold)), ("code", programs["gold"])):
            replies[form] += [(kind, gold, reply(text, kind, form)) for kind in REPLIES]
    for gold in escaped:
        replies["json"].append(("escapes", gold, _json(gold)))
        replies["code"].append(("escapes", gold, _fenced(program(gold, "gold", rng))))
    for what, form, answers in (
        ("plan", "json", changes),
        ("nearest", "json", others),
        ("reply", "json", replies["json"]),
        ("reply", "code", replies["code"]),
    ):
        found.join(compared(python, checkout, what, form, answers))
    return found


def made_plan(rng: random.Random, values: Sequence[Any]) -> Plan:
    """One to three steps with the arguments of their tools: values, or results of earlier ones."""
    made: Plan = []
    for place in range(rng.randint(1, 3)):
        tool = rng.choice(TOOLS)
        arguments = {}
        for name in tool.arguments.split(", "):
            arguments[name] = rng.choice(values)
            if place and rng.random() < 0.6:
                result = f"<node-{rng.randrange(place)}>.{rng.choice(tool.results.split(', '))}"
                arguments[name] = rng.choice((result, f"what is in {result} and more"))
        made.append({"id": place, "name": tool.name, "args": arguments})
    return made


def changed(plan: Plan, kind: str, rng: random.Random) -> Any:
    """The plan with one change of `kind`; for ``nonsense`` and ``none`` none at all."""
    made = [step | {"args": dict(step["args"])} for step in plan]
    step = rng.choice(made)
    name = rng.choice(sorted(step["args"]))
    values: dict[str, Any] = {
        "case": str(step["args"][name]).upper(),
        "value": "something else",
        "braces": "<node-0>.text {x}",
        "doubled braces": "{{<node-0>.text}} {0}",
        "reference": "<node-x>.text",
    }
    if kind in values:
        step["args"][name] = values[kind]
    names = {"tool": rng.choice(TOOLS).name, "unknown": "image tagger", "name": "f(); x = g"}
    step["name"] = names.get(kind, step["name"])
    if kind == "without":
        del step["args"][name]
    if kind == "added":
        step["args"][rng.choice(("z", "my arg", "class"))] = 1
    if kind == "order":
        step["args"] = dict(reversed(step["args"].items()))
    if kind == "spaces":
        step["name"] = step["name"].replace(" ", "_")
    if kind == "id":
        step["id"] = rng.choice(("x", 1.5, "a b", None))
    extra = {"id": len(made), "name": rng.choice(TOOLS).name, "args": {"text": "more"}}
    lists: dict[str, Any] = {
        "dropped": made[:-1],
        "further": [*made, extra],
        "doubled": [*made, *made[-1:]],
        "swapped": made[::-1],
        "many": made * 20,
        "none": [],
        "nonsense": rng.choice(({"id": 0}, [1], [{"name": "tag"}], "text", 7, None)),
    }
    return lists.get(kind, made)


def program(plan: Plan, kind: str, rng: random.Random) -> str:
    """The plan as a program with one trait of `kind`."""
    lines = code_of(plan).split("\n")
    tool = rng.choice(TOOLS).function
    more = {
        "f-string": "output7 = text_generation(text=f\"a {output0['text']} b\")",
        "two lines": f"output7 = {tool}(\n    text='a')",
        "positional": f"output7 = {tool}('a', text='b')",
        "joined": f"output7 = {tool}(text='a'); output8 = tag(image='b')",
        "syntax": "output7 = tag(",
        "comment": f"output7 = {tool}(text='a')  # so",
        "typed": f"output7: dict = {tool}(text='a')",
        "starred": f"output7 = {tool}(**output0)",
        "method": f"output7 = tools.{tool}(text='a')",
        "literal": "result = {0: output0}",
    }
    if kind == "none":
        return ""
    if kind in more:
        lines.append(more[kind])
    if kind == "returns":
        return "\n".join([*lines, "return output0"])
    if kind == "lines":
        return "\n".join(lines)
    indented = [f"    {line}" for text in lines for line in text.split("\n")]
    return "\n".join(["def solve():", *indented, "    return output0"])


def reply(text: str, kind: str, form: str) -> str:
    """A reply with the plan, as `REPLIES` has it or in the way that its name says."""
    if kind == "underscores":
        return text.replace("_", "\\_")
    if kind == "cut":
        return text[: 2 * len(text) // 3]
    if form == "code":
        fences = {"unfenced": ("```python\n", ""), "other fence": ("```python", "```py")}
        text = text.replace(*fences.get(kind, ("", "")))
    elif kind == "list":
        text = _nodes(text)
    elif kind == "indented":
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return REPLIES.get(kind, "{}").replace("{}", text)


def compared(
    python: str, checkout: Path, what: str, form: str, answers: Sequence[Answer]
) -> Agreement:
    """Each answer, and all of a kind."""
    groups = [(kind, [(kind, gold, answer)]) for kind, gold, answer in answers]
    for kind in dict.fromkeys(kind for kind, _, _ in answers):
        groups.append(("all", [each for each in answers if each[0] == kind]))
    found = Agreement()
    pad = ("pad", PAD, _json(PAD) if form == "json" else _fenced(code_of(PAD)))
    asked, ours = [], []
    for _, some in groups:
        rows = [_row(nth, gold) for nth, (_, gold, _) in enumerate([pad, *some])]
        given = [answer for _, _, answer in (pad, *some)]
        ours.append(_figures(rows, given, what, form))
        plain = given if what == "reply" else [_nodes(text) for text in given]
        how = {"read": what == "reply", "nearest": what == "nearest"}
        asked.append({"gold": rows, "answers": plain, "format": form} | how)
    said = official(python, "mnms.py", [str(checkout)], asked)
    for (kind, some), mine, its in zip(groups, ours, said, strict=True):
        if "stopped" in its:
            continue  # it has no figures
        found.add(f"{what} {form} {kind}", mine, its["figures"], some[0][2][:300])
    return found


def _figures(
    rows: list[dict[str, Any]], answers: list[str], what: str, form: str
) -> dict[str, float]:
    """The evaluator's 16 figures from our scores."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "test_human_verified_filtered.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        tasks = list(benchmark_named("mnms" if form == "json" else "mnms-code").load(Source(path)))
    scorer = "mnms_best_match" if what == "nearest" else "mnms"
    return figures_of(asyncio.run(_scored(scorer, tasks, answers)))


async def _scored(scorer: str, tasks: list[Task], answers: list[str]) -> list[Mapping[str, Any]]:
    found = []
    for task, answer in zip(tasks, answers, strict=True):
        score = await SCORERS[scorer].score(
            task.target, Submission(None, answer), ScoringResources()
        )
        right = {"plan_tools": score.correct}
        found.append(score.detail["plan_figures"] | right)
    return found


def figures_of(plans: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The figures by the evaluator's names and to its digits, in percent."""
    measures = {each.name: each.value or 0.0 for each in plan_measures([[one] for one in plans])}
    sides = ("right_tools", "missed_tools", "surplus_tools")
    occurring = {tool for plan in plans for side in sides for tool in plan[side]}
    made: dict[str, float] = {"tool_macro_f1": measures["tool F1"] * len(occurring) / len(TOOLS)}
    for part, other in (("precision", "surplus_tools"), ("recall", "missed_tools")):
        shares = [_share(plans, tool, other) for tool in occurring]
        made[f"tool_macro_{part}"] = sum(shares) / len(TOOLS)
    for name, kind in (
        ("argname", "argument_names"),
        ("argvalue", "argument_values"),
        ("edge", "edges"),
    ):
        right, all_made, gold = (sum(plan[kind][nth] for plan in plans) for nth in range(3))
        made[f"{name}_precision"] = right / (all_made or 1)
        made[f"{name}_recall"] = right / (gold or 1)
        label = {"argname": "argument-name F1", "argvalue": "argument-value F1"}
        made[f"{name}_f1"] = measures[label.get(name, "edge F1")]
    made["plan_tool_accuracy"] = sum(plan["plan_tools"] for plan in plans) / len(plans)
    made["plan_argname_accuracy"] = measures["plans right by names"]
    made["plan_argvalue_accuracy"] = measures["plans right by values"]
    made["tool_normalized_edit_distance"] = measures["edit distance"]
    return {name: round(100 * value, 2) for name, value in made.items()}


def _share(plans: Sequence[Mapping[str, Any]], tool: str, other: str) -> float:
    right, wrong = (sum(tool in plan[side] for plan in plans) for side in ("right_tools", other))
    return right / (right + wrong) if right else 0.0


def _row(number: int, gold: Plan) -> dict[str, Any]:
    other = [step | {"name": "tag"} for step in gold]
    alternatives = [gold[:1], other, [*gold, *other]]
    row = {"id": number, "user_request": "Do it.", "plan_str": str(gold), "code_str": "x"}
    return row | {"alt_plans_str": str(alternatives)}


def _json(nodes: Any) -> str:
    return json.dumps({"nodes": nodes}, ensure_ascii=False)


def _nodes(text: str) -> str:
    return json.dumps(json.loads(text)["nodes"])


def _fenced(code: str) -> str:
    return f"```python\n{code}\n```"
