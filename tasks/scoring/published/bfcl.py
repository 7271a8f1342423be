"""BFCL's check of calls by their syntax tree, as in V4 (``bfcl-eval`` 2026.3.23).

Target: ``{"category": "parallel", "calls": [{"name": …, "possible": {argument: [values …]}}],
"functions": {name: {"required": [argument …], "types": {argument: [type, type of items]}}}}``.
Categories with ``parallel`` in their name: as many calls as expected, in any order; each expected
call in turn is paired with the first call that fits (greedy). Other categories: one call.
``irrelevance``: no call is right; ``relevance``: any call is right.

An omitted argument must have ``""`` among its values. In texts, spaces and ``, . / - _ * ^`` are
dropped, case is ignored and single quotes equal double ones. If an answer's values have another
type than the argument, they are names of variables and compared unchanged. As in BFCL, all this is
checked one level deep only.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tutti.tasks.scoring.rules.score import Score, Scorer, ScorerFailed, Submission, Target, needed
from tutti.tasks.scoring.rules.tool_calls import Call, calls_made

TYPES: Mapping[str, type[Any]] = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "any": str,
}
LEFT_OUT = ""
Functions = Mapping[str, Mapping[str, Any]]  # their required arguments, types
_DROPPED = re.compile(r"[ ,./\-_*^]")


def standard(value: Any) -> Any:
    """Return a text without the signs that the comparison ignores; any other value unchanged."""
    if not isinstance(value, str):
        return value
    return _DROPPED.sub("", value).lower().replace("'", '"')


def _has_type(
    value: Any, possible: Sequence[Any], wanted: type[Any], inner: type[Any] | None
) -> tuple[bool, bool]:
    """Return whether a value has its type, and whether it counts as the name of a variable."""
    known = next((type(each) for each in possible if each != LEFT_OUT), None)
    if type(value) is not wanted:
        return type(value) is known, True
    is_variable = known is not None and known is not wanted
    if inner is None:
        return True, is_variable
    for each in possible:
        if not isinstance(each, list):
            return True, is_variable
        if all(_has_type(member, each, inner, None)[0] for member in value):
            return True, is_variable
    return False, is_variable


def _is_object(value: Mapping[str, Any], answer: Mapping[str, Sequence[Any]]) -> bool:
    for key, member in value.items():
        values = answer.get(key)
        if not isinstance(values, list) or standard(member) not in map(standard, values):
            return False  # two answers of live_multiple list no values, and end the program there
    left = [values for key, values in answer.items() if key not in value]
    return all(isinstance(values, list) and LEFT_OUT in values for values in left)


def argument_fits(value: Any, possible: Sequence[Any], kind: str, items: str | None) -> bool:
    """Whether a value is right for an argument of type `kind`, whose items have type `items`."""
    wanted = TYPES.get(kind, str)
    inner = TYPES.get(items or "") if wanted is list else None
    if kind == "float" and type(value) is int:
        value = float(value)
    valid, is_variable = _has_type(value, possible, wanted, inner)
    if not valid:
        return False
    if is_variable or wanted not in (dict, list, str):
        return value in possible
    if wanted is dict:
        return any(_is_object(value, each) for each in possible if each != LEFT_OUT)
    if wanted is str:
        return standard(value) in [standard(each) for each in possible if isinstance(each, str)]
    if inner is not dict:
        mine = [standard(each) for each in value]
        return any(mine == [standard(member) for member in each] for each in possible)
    return any(
        len(value) == len(answers)
        and all(
            answer != LEFT_OUT and _is_object(one, answer)
            for one, answer in zip(value, answers, strict=True)
        )
        for answers in possible
    )


def error_of(made: Call, expected: Mapping[str, Any], functions: Functions) -> str | None:
    """Return the kind of error of a call; None if it fits the expected one."""
    if made.name != expected["name"]:
        return "wrong_func_name"
    if made.arguments is None:
        return "unreadable_arguments"
    function, possible = functions[expected["name"]], expected["possible"]
    if any(name not in made.arguments for name in function["required"]):
        return "missing_required"
    types = function["types"]
    for name, value in made.arguments.items():
        if name not in types or name not in possible:
            return f"unexpected_param: {name}"
        if not argument_fits(value, possible[name], *types[name]):
            return f"value_error: {name}"
    for name, values in possible.items():
        if name not in made.arguments and LEFT_OUT not in values:
            return f"missing_optional: {name}"
    return None


class BfclAst(Scorer):
    """BFCL's own check of calls."""

    name = "bfcl_ast"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        category, expected = needed(target, "category", str), needed(target, "calls", list)
        made = calls_made(submission.conversation)
        if "irrelevance" in category:
            error = "calls_where_none_is_right" if made else None
        elif "relevance" in category:
            error = None if made else "no_call"
        else:
            functions = needed(target, "functions", dict)
            if not expected or any("possible" not in call for call in expected):
                raise ScorerFailed(f"{self.name}: the target's calls need possible values")
            error = _error(made, expected if "parallel" in category else expected[:1], functions)
        return self.result(error is None, detail={"error": error, "category": category})


def _error(made: Sequence[Call], expected: Sequence[Any], functions: Functions) -> str | None:
    if len(made) != len(expected):
        return f"wrong_count: {len(made)}"
    left = list(made)
    for wanted in expected:
        errors = [error_of(call, wanted, functions) for call in left]
        if None not in errors:
            return str(errors[0])
        del left[errors.index(None)]
    return None
