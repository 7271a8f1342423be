"""m&m's measures of a plan, from its published evaluator. No tool is executed.

Target: ``{"plan": [{"id": 0, "name": "image captioning", "args": {"image": "a.jpg"}}, …],
"alternatives": [plan, …], "format": "json" or "code", "tools": ["image_captioning", …]}``.

A plan in JSON is rewritten as lines of Python, ``output0 = image_captioning(image="a.jpg")``. A
line is a step if it parses by itself and its first assignment is a call of a plain name; another
line counts as nothing. Compared are sets of labels: argument names (a tool with the sorted names of
its arguments), argument values (case ignored), edges (a tool and the next one); and lists: the
tools in order, the same with names, the same with values.

The plan is read as the published agent reads it, but escapes are kept: the published agent deletes
each backslash and, in JSON, each line break, which is done here only where the text cannot be read
otherwise. Source: Ma et al. 2024, arXiv 2403.11085, and RAIVNLab/mnms, commit 8903795.
"""

import ast
import itertools
import json
import re
import string
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tutti.tasks.scoring.rules.score import Score, Scorer, ScorerFailed, Submission, Target, needed
from tutti.tasks.scoring.rules.tool_calls import in_order

MOST_CHARS = 20_000  # of a plan; a gold one has three steps, and Python parses f-strings in O(n^2)
SHOWN_STEPS = 50  # of a plan in the details
_RESULT, _FENCE = "RESULT #:", "```"
_PLACE = re.compile(r"<node-(\d+)>\.(\w+)")
_FORMATS = ("json", "code")
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


class PlanUnreadable(ValueError):
    """A text or a list of steps that is not a plan; the message says why."""


class Step(NamedTuple):
    """One call of a plan."""

    tool: str
    arguments: Mapping[str, str]  # each value as Python writes it


class Labels(NamedTuple):
    """A plan's labels; the lists are in the plan's order."""

    tools: list[str]
    names: list[str]
    values: list[str]
    edges: list[str]


def steps_of(code: str) -> list[Step]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about escapes in a model's text
        return [step for line in code.split("\n") if (step := _step(line.strip())) is not None]


def _step(line: str) -> Step | None:
    try:
        tree = ast.parse(line)
        first = next((node for node in ast.walk(tree) if isinstance(node, ast.Assign)), None)
        if first is None or not isinstance(first.targets[0], ast.Name):
            return None
        call = first.value
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return None
        # `**x` has no name; the published program stops at it
        found = {word.arg or "**": ast.unparse(word.value) for word in call.keywords}
    except _UNREADABLE:
        return None
    return Step(call.func.id, found)


def code_of(nodes: Any) -> str:
    """A plan's steps as lines of Python. Raises PlanUnreadable where the publisher's code fails."""
    if not isinstance(nodes, list):
        raise PlanUnreadable("the steps are not a list")
    lines = []
    for node in nodes:
        if not isinstance(node, Mapping) or "id" not in node:
            raise PlanUnreadable("a step is not an object with an id")
        name, arguments, number = node.get("name"), node.get("args"), _shown(node["id"])
        if not isinstance(name, str) or not isinstance(arguments, Mapping):
            raise PlanUnreadable(f"step {number[:80]!r} has no name or no arguments")
        written = ", ".join(f"{key}={_value(value)}" for key, value in arguments.items())
        lines.append(f"output{number} = {name.replace(' ', '_')}({written})")
    return "\n".join(lines)


def _value(value: Any) -> str:
    if not isinstance(value, str):
        return f'"{_shown(value)}"'  # numbers are texts
    if value.startswith("<node-") and " " not in value:
        number, dot, _ = value[len("<node-") :].partition(">")
        try:
            step = int(number)
        except ValueError:
            dot = ""
        if not dot or "." not in value:
            raise PlanUnreadable(f"{value[:80]!r} names no result of a step")
        return f"output{step}['{value.partition('.')[2]}']"
    has_result = "<node-" in value
    escaped = (_with_results(value) if has_result else value).replace('"', '\\"')
    return f'f"{escaped}"' if has_result else f'"{escaped}"'


def _with_results(text: str) -> str:
    """A text with results of steps, as by `str.format`, whose widths could cost gigabytes."""
    results = [f"output{int(found[1])}['{found[2]}']" for found in _PLACE.finditer(text)]
    made, free, kinds = [], iter(results), set()
    try:
        parts = list(string.Formatter().parse(_PLACE.sub("{}", text)))
    except ValueError as error:
        raise PlanUnreadable(f"braces in {text[:80]!r}: {error}") from error
    for before, field, width, conversion in parts:
        made.append(before)
        if field is None:
            continue
        kinds.add(bool(field))
        # A field {1} names the result of that number, an empty one the next result.
        number = int(field) if field.isdecimal() and len(field) < 9 else len(results)
        numbered = results[number] if number < len(results) else None
        found = numbered if field else next(free, None)
        if width or conversion or found is None or len(kinds) > 1:
            raise PlanUnreadable(f"braces in {text[:80]!r}")
        made.append(found)
    return "".join(made)


def _shown(value: Any) -> str:
    try:
        return str(value)
    except (RecursionError, ValueError) as error:
        raise PlanUnreadable(f"a value: {error}") from error


def read_plan(text: str, form: str) -> str:
    """Return the plan in a message, as lines of Python. Raises PlanUnreadable."""
    read = _read_code if form == "code" else _read_json
    try:
        return read(text)
    except PlanUnreadable as error:
        bare = text if form == "code" else text.replace("\n", "")
        try:
            return read(bare.replace("\\_", "_").replace("\\", ""))
        except PlanUnreadable:
            raise error from None  # the fault of the text as it was written


def _read_json(text: str) -> str:
    text = text.partition(_RESULT)[2] if _RESULT in text else text
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        raise PlanUnreadable("no JSON object")
    text = _bounded(text[start : end + 1])
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlanUnreadable(f"not JSON: {error}") from error
    if "nodes" not in found:
        raise PlanUnreadable("the object has no nodes")
    return code_of(found["nodes"])


def _read_code(text: str) -> str:
    text = text.partition(_RESULT)[2] if _RESULT in text else text
    _, opened, text = text.partition(f"{_FENCE}python")
    code, closed, _ = text.partition(_FENCE)
    if not opened or not closed:
        raise PlanUnreadable(f"no block between {_FENCE}python and {_FENCE}")
    if not code:
        raise PlanUnreadable("the block is empty")
    code = _bounded(code)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(code, "plan", "exec", dont_inherit=True)  # never executed
    except _UNREADABLE as error:
        raise PlanUnreadable(f"not Python: {error}") from error
    return code


def _bounded(text: str) -> str:
    if len(text) > MOST_CHARS:
        raise PlanUnreadable(f"{len(text)} characters; at most {MOST_CHARS} are read")
    return text


def labels_of(steps: Sequence[Step]) -> Labels:
    ordered = [(step.tool, sorted(step.arguments.items())) for step in steps]
    tools = [step.tool for step in steps]
    return Labels(
        tools,
        ["--".join((tool, *(key for key, _ in pairs))) for tool, pairs in ordered],
        ["--".join((tool, *(f"{k}={v.lower()}" for k, v in pairs))) for tool, pairs in ordered],
        [f"{one}--{other}" for one, other in itertools.pairwise(tools)],
    )


def edit_distance(made: Sequence[str], gold: Sequence[str], tools: Sequence[str]) -> float:
    """1 - 2 LCS / (n + m), 0 to 1; tools that are not among `tools` count as identical."""
    if not made and not gold:
        return 0.0
    known = frozenset(tools)
    one, other = ([tool if tool in known else "" for tool in side] for side in (made, gold))
    table = [[tool == wanted for wanted in other] for tool in one]
    return 1 - 2 * len(in_order(table, len(other))) / (len(one) + len(other))


class Mnms(Scorer):
    """Comparison of a plan with the gold plan.

    Value: 1 - edit distance. Correct: the tools are the gold ones, in order.
    `detail["plan_figures"]` has the summands of the published figures. ``mnms_best_match`` uses, of
    the gold plan and its alternatives, the one whose set of tools is nearest (F1), as the
    evaluator's ``use_best_match`` does.
    """

    def __init__(self, best_match: bool = False) -> None:
        """`best_match`: use the nearest of gold plan and alternatives as the gold one."""
        self.best_match = best_match
        self.name: str = "mnms_best_match" if best_match else "mnms"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        form, tools = needed(target, "format", str), needed(target, "tools", list)
        if form not in _FORMATS:
            raise ScorerFailed(f"the target's format is {form!r}; it must be json or code")
        plans = [needed(target, "plan", list)]
        plans += needed(target, "alternatives", list) if self.best_match else []
        try:
            golds = [labels_of(steps_of(code_of(plan))) for plan in plans]
        except PlanUnreadable as error:
            raise ScorerFailed(f"mnms: the target's plan: {error}") from error
        wrong = None
        try:
            code = read_plan(submission.final_text, form)
        except PlanUnreadable as error:
            code, wrong = "", str(error)[:200]
        made = labels_of(steps_of(code))
        gold = max(golds, key=lambda each: _f1(made.tools, each.tools))  # of equal ones the first
        distance = edit_distance(made.tools, gold.tools, tools)
        detail: dict[str, Any] = {"error": wrong, "steps": len(made.tools)}
        detail["made"] = made.tools[:SHOWN_STEPS]
        detail["plan_figures"] = _figures(made, gold, tools) | {"edit_distance": distance}
        right, found = made.tools == gold.tools, wrong is None
        return self.result(right, 1 - distance, detail=detail, found_answer=found)


def _figures(made: Labels, gold: Labels, tools: Sequence[str]) -> dict[str, Any]:
    """The summands of the published figures: for each kind of label [right, made, gold]; tools."""
    ours, theirs = (set(each.tools) & set(tools) for each in (made, gold))
    return {
        "argument_names": _counts(made.names, gold.names),
        "argument_values": _counts(made.values, gold.values),
        "edges": _counts(made.edges, gold.edges),
        "right_tools": sorted(ours & theirs),
        "missed_tools": sorted(theirs - ours),
        "surplus_tools": sorted(ours - theirs),
        "plan_names": made.names == gold.names,
        "plan_values": made.values == gold.values,
    }


def _counts(made: Sequence[str], gold: Sequence[str]) -> list[int]:
    ours, theirs = set(made), set(gold)
    return [len(ours & theirs), len(ours), len(theirs)]


def _f1(made: Sequence[str], gold: Sequence[str]) -> float:
    right, ours, theirs = _counts(made, gold)
    return round(200 * right / (ours + theirs), 2) if ours + theirs else 0.0
