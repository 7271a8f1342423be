"""The worker of the scorer `math`: two formulas in, whether they are equal out. Run by workers.py.

Request: ``{"gold": latex, "given": latex}``. Answer: ``{"equal": bool, "gold": text, "given": text
or None}``. Request: ``{"alone": latex}``. Answer: ``{"evaluated": true}``. Either may be answered
``{"too_large": why}``: `limit_numbers` limits the numbers that sympy computes.
"""

import logging
import math
from collections.abc import Callable
from typing import Any

import sympy.core.evalf
import sympy.core.numbers
from math_verify import parse, verify
from sympy import Basic, Integer, Rational, binomial, factorial, factorial2, subfactorial

from tutti.tasks.scoring.children.workers import serve

MAX_BITS = 4_000_000  # computed within a second; answers in contests have at most some thousands
MAX_EXPONENT_BITS = 64  # of a decimal's power, which takes one squaring per bit
MAX_FACTORS = 10_000  # of a binomial, which sympy multiplies one by one
Compute = Callable[..., Any]
Bits = Callable[..., float]


class NumberTooLarge(BaseException):
    """A number beyond the limits.

    Not a subclass of Exception (like KeyboardInterrupt): sympy and math-verify catch Exception and
    compute the same number in another way.
    """


def limit_numbers() -> None:
    """Set the limits for this process, permanently."""
    for owner in (Rational, Integer):
        owner._eval_power = _limited(owner._eval_power, _bits_of_power)
    for function in (factorial, factorial2, subfactorial):
        function.eval = classmethod(_limited(function.eval.__func__, _bits_of_factorial))
    binomial._eval = classmethod(_limited(binomial._eval.__func__, _bits_of_binomial))
    for module in (sympy.core.numbers, sympy.core.evalf):
        vars(module)["mpf_pow"] = _limited(vars(module)["mpf_pow"], _bits_of_decimal_power)


def _limited(compute: Compute, bits: Bits) -> Compute:
    def limited(*arguments: Any) -> Any:
        if bits(*arguments) > MAX_BITS:
            raise NumberTooLarge
        return compute(*arguments)

    return limited


def _bits_of_power(base: Any, exponent: Any) -> float:
    if not isinstance(exponent, Rational) or not exponent.q:
        return 0
    longest = max(int(base.p).bit_length(), int(base.q).bit_length())
    return longest * (abs(int(exponent.p)) // int(exponent.q))


def _bits_of_factorial(_function: Any, n: Any) -> float:
    if not isinstance(n, Integer) or n.p <= 1:
        return 0
    return int(n.p) * math.log2(n.p) if n.p < MAX_BITS else math.inf


def _bits_of_binomial(_function: Any, n: Any, k: Any) -> float:
    if not isinstance(k, Integer):
        return 0
    factors = abs(int(k))
    if isinstance(n, Integer):
        factors = min(factors, abs(int(n) - int(k)))
    return math.inf if factors > MAX_FACTORS else 0


def _bits_of_decimal_power(_base: Any, exponent: Any, precision: int, *_rounding: Any) -> float:
    # mpmath's number is (sign, mantissa, exponent, bits of the mantissa).
    return math.inf if exponent[2] + exponent[3] > MAX_EXPONENT_BITS else precision


TOO_LARGE = (NumberTooLarge, RecursionError, MemoryError, OverflowError)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        if "alone" in request:
            for formula in _read(request["alone"]):
                _equal([formula.doit() if isinstance(formula, Basic) else formula], [Integer(1)])
            return {"evaluated": True}
        gold, given = (_read(request[side]) for side in ("gold", "given"))
        equal = bool(gold and given) and _equal(gold, given)
        return {"equal": equal, "gold": _shown(gold), "given": _shown(given)}
    except TOO_LARGE as error:
        return {"too_large": type(error).__name__}


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
