"""EvalPlus's comparison of a solution of MBPP with the reference solution, task by task.

The source of this module goes into the sandbox as text (`mbpp_plus`): standard library only. The
release has its inputs as JSON; `converted` makes tuples, sets and complex numbers of them where the
task's function takes these. The numbers are those of the tasks (``Mbpp/63`` is 63); some of them
are in older releases only. The rules are those of ``evalplus`` 0.3.1.
"""

from __future__ import annotations

import cmath
import copy
import json
import math

TYPE_CHECKING = False
if TYPE_CHECKING:  # the import would lengthen each start of the sandbox
    from collections.abc import Callable, Sequence
    from typing import Any

FLOAT_TOLERANCE = 1e-6  # where the row has none and the expected value is made of floats
RELATIVE_TOLERANCE = 1e-7
SETS = {
    *("similar_elements", "find_char_long", "common_in_nested_lists", "extract_singly"),
    *("larg_nnum", "intersection_array", "find_dissimilar", "Diff"),
}
"""Functions whose results are compared as sets."""
FINDERS = {"check_str", "text_match_three", "text_starta_endb"}
"""Functions of which it counts only whether they return None; False is not None but a no."""


def _tuples(given: Sequence[Any]) -> list[Any]:
    return [tuple(argument) for argument in given]


def _lists_of_tuples(given: Sequence[Any]) -> list[Any]:
    return [_tuples(argument) for argument in given]


def _tuples_of_tuples(given: Sequence[Any]) -> list[Any]:
    return [tuple(_tuples(argument)) for argument in given]


def _first_is_list_of_tuples(given: Sequence[Any]) -> list[Any]:
    return [_tuples(given[0]), *given[1:]]


def _first_is_tuple(given: Sequence[Any]) -> list[Any]:
    return [tuple(given[0]), *given[1:]]


def _second_is_tuple(given: Sequence[Any]) -> list[Any]:
    return [given[0], tuple(given[1])]


def _first_holds_tuples(given: Sequence[Any]) -> list[Any]:
    return [tuple(tuple(each) if isinstance(each, list) else each for each in given[0])]


def _first_has_tuples_as_values(given: Sequence[Any]) -> list[Any]:
    return [{key: tuple(value) for key, value in given[0].items()}, *given[1:]]


def _list_of_sets(given: Sequence[Any]) -> list[Any]:
    return [[set(each) if each and isinstance(each, list) else {} for each in given[0]]]


def _float_and_complex(given: Sequence[Any]) -> list[Any]:
    return [float(given[0]), complex(given[1])]


def _complex(given: Sequence[Any]) -> list[Any]:
    return [complex(given[0])]


def _without_lists(given: Any) -> Any:
    return tuple(map(_without_lists, given)) if isinstance(given, list) else given


CONVERSIONS: tuple[tuple[Callable[[Sequence[Any]], Sequence[Any]], set[int]], ...] = (
    (
        _tuples,
        {
            *(2, 116, 132, 143, 222, 261, 273, 394, 399, 421, 424, 429, 470, 560, 579, 596, 616),
            *(630, 726, 740, 744, 809),
        },
    ),
    (
        _lists_of_tuples,
        {63, 64, 70, 94, 120, 237, 272, 299, 400, 409, 417, 438, 473, 614, 780},
    ),
    (_first_is_list_of_tuples, {75, 413, 444, 753}),
    (_second_is_tuple, {106, 750}),
    (_list_of_sets, {115}),
    (_float_and_complex, {124}),
    (_first_is_tuple, {250, 307, 405, 446, 617, 720, 763, 808}),
    (_complex, {252}),
    (_tuples_of_tuples, {259, 401, 445}),
    (_first_holds_tuples, {278}),
    (_without_lists, {580, 615, 791}),
    (_first_has_tuples_as_values, {722}),
)


def converted(task: int, inputs: Sequence[Any]) -> list[Sequence[Any]]:
    """The arguments of each call, with the types that the function of task number `task` takes.

    Raises TypeError, ValueError, IndexError, AttributeError if an input has not the task's form.
    """
    for conversion, tasks in CONVERSIONS:
        if task in tasks:
            return [conversion(given) for given in inputs]
    return list(inputs)


def compare(solution: Callable[..., Any], case: dict[str, Any]) -> None:
    """Call `solution` and the reference with every input. AssertionError at the first that differs.

    `case` has ``task`` (a number), ``inputs`` (JSON), ``reference`` (Python), ``entry_point`` and
    ``tolerance``. Once a result is made of floats the tolerance holds for all inputs after it, too.
    """
    inside: dict[str, Any] = {}
    exec(case["reference"], inside)
    name, tolerance = case["entry_point"], case["tolerance"]
    for given in converted(case["task"], json.loads(case["inputs"])):
        expected = inside[name](*copy.deepcopy(given))
        if name in FINDERS:
            expected = expected is not None
        passed = copy.deepcopy(given)
        made = solution(*passed)
        right = is_right(name, passed, made, expected, tolerance)
        if tolerance == 0 and _is_float(expected):
            tolerance = FLOAT_TOLERANCE
        if right:
            continue
        assert tolerance and type(made) is type(expected), (given, made, expected)
        assert is_near(made, expected, tolerance), (given, made, expected)


def is_right(name: str, given: Sequence[Any], made: Any, expected: Any, tolerance: float) -> bool:
    """Whether `made` is right without a tolerance for floats, by the rule of the function `name`.

    Some tasks can be read in two ways, or their reference is wrong: these accept more.
    """
    if name in SETS:
        return set(made) == set(expected)
    if name in FINDERS:
        return bool((made if isinstance(made, bool) else made is not None) == expected)
    if made == expected or name == "are_equivalent":
        return True
    if name == "sum_div":
        return bool(made == 0)
    if name == "surface_Area":
        return bool(abs(made - _surface(*given)) <= tolerance)
    return name == "digit_distance_nums" and bool(made == _digit_distance(*given))


def _surface(edge: float, height: float) -> int:
    """Of a square pyramid, where the height is the apex's distance from the base."""
    return round(edge**2 + 2 * edge * math.sqrt((edge / 2) ** 2 + height**2))


def _digit_distance(one: int, other: int) -> int:
    """The sum of the digits' differences, the shorter number filled up with zeros on its left."""
    width = max(len(str(one)), len(str(other)))
    pairs = zip(str(one).zfill(width), str(other).zfill(width), strict=True)
    return sum(abs(int(a) - int(b)) for a, b in pairs)


def _is_float(value: Any) -> bool:
    if isinstance(value, (list, tuple)) and value:
        return all(isinstance(each, float) for each in value)
    return isinstance(value, float)


def is_near(made: Any, expected: Any, tolerance: float) -> bool:
    """Whether numbers, or lists of them, are within ``tolerance + 1e-7 * |expected|``."""
    if isinstance(expected, (list, tuple)):
        pairs = zip(made, expected, strict=False)
        return len(made) == len(expected) and all(is_near(a, b, tolerance) for a, b in pairs)
    if not isinstance(expected, (int, float, complex)):
        return False
    if made == expected:
        return True
    distance = abs(made - expected)
    return cmath.isfinite(expected) and distance <= tolerance + RELATIVE_TOLERANCE * abs(expected)
