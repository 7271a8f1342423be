"""Comparison of JSON values: the order of keys is ignored, 1 equals 1.0, true does not equal 1."""

from collections.abc import Mapping, Sequence
from typing import Any


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON value."""
    return first_difference(one, other) is None


def first_difference(expected: Any, actual: Any, path: str = "") -> dict[str, Any] | None:
    """Where two JSON values first differ, keys in sorted order; None if they are equal.

    ``{"path": JSON pointer, "expected": …, "actual": …, "kind": "value", "missing" or "extra"}``.
    """
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return _in_objects(expected, actual, path)
    if _is_list(expected) and _is_list(actual):
        return _in_lists(expected, actual, path)
    if _is_number(expected) and _is_number(actual):
        equal = expected == actual
    else:
        equal = type(expected) is type(actual) and expected == actual
    return None if equal else _difference(path, "value", expected, actual)


def _in_objects(
    expected: Mapping[str, Any], actual: Mapping[str, Any], path: str
) -> dict[str, Any] | None:
    for key in sorted(expected.keys() | actual.keys(), key=str):
        inner = f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"
        if key not in actual:
            return _difference(inner, "missing", expected[key], None)
        if key not in expected:
            return _difference(inner, "extra", None, actual[key])
        found = first_difference(expected[key], actual[key], inner)
        if found:
            return found
    return None


def _in_lists(expected: Sequence[Any], actual: Sequence[Any], path: str) -> dict[str, Any] | None:
    for place, (one, other) in enumerate(zip(expected, actual, strict=False)):
        found = first_difference(one, other, f"{path}/{place}")
        if found:
            return found
    if len(expected) > len(actual):
        return _difference(f"{path}/{len(actual)}", "missing", expected[len(actual)], None)
    if len(actual) > len(expected):
        return _difference(f"{path}/{len(expected)}", "extra", None, actual[len(expected)])
    return None


def _difference(path: str, kind: str, expected: Any, actual: Any) -> dict[str, Any]:
    return {"path": path or "/", "kind": kind, "expected": expected, "actual": actual}


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
