"""The worker of the scorer `math`: two formulas in, whether they are equal out. Run by workers.py.

It is a separate process because sympy may not terminate, and because an exception cannot
interrupt all of its code. Request: ``{"gold": latex, "given": latex}``. Answer: ``{"equal": bool,
"gold": text, "given": text or None}``; a formula that cannot be read is None.

Request: ``{"alone": latex}``. Answer: ``{"evaluated": true}``, which shows the caller that this
formula can be evaluated in time. Either request is answered ``{"too_large": why}`` if the numbers
or the nesting exceed the limits.
"""

import logging
from typing import Any

from math_verify import parse, verify
from sympy import Basic, Integer

from tutti.tasks.scoring.children.math_limits import NumberTooLarge, limit_numbers
from tutti.tasks.scoring.children.workers import serve

TOO_LARGE = (NumberTooLarge, RecursionError, MemoryError, OverflowError)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Compare two formulas, or evaluate one."""
    try:
        return _evaluate(request["alone"]) if "alone" in request else _compare(request)
    except TOO_LARGE as error:
        return {"too_large": type(error).__name__}


def _compare(request: dict[str, Any]) -> dict[str, Any]:
    gold, given = (_read(request[side]) for side in ("gold", "given"))
    readings = {"gold": _shown(gold), "given": _shown(given)}
    return {"equal": bool(gold and given) and _equal(gold, given), **readings}


def _evaluate(latex: str) -> dict[str, Any]:
    for formula in _read(latex):
        _equal([formula.doit() if isinstance(formula, Basic) else formula], [Integer(1)])
    return {"evaluated": True}


def _equal(gold: list[Any], given: list[Any]) -> bool:
    # The library's own time-outs are off: they use signals, which C code does not check. The caller
    # kills this process instead.
    return bool(verify(gold, given, timeout_seconds=None, raise_on_error=True))


def _read(latex: str) -> list[Any]:
    # Without "no_fallback", an unreadable formula would be compared as text.
    found: list[Any] = parse(
        f"\\boxed{{{latex}}}",
        fallback_mode="no_fallback",
        parsing_timeout=None,
        raise_on_error=True,
    )
    return found


def _shown(found: list[Any]) -> str | None:
    return str(found[0])[:200] if found else None


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # that its own time-outs are off, as intended
    limit_numbers()
    serve(answer)
