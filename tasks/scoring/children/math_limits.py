"""A limit on the numbers that sympy computes, set in a worker before it reads any formula.

`9^{9^{9^9}}` is a short text for a number too large for any machine. If sympy would compute an
exact power, factorial or binomial of more than `MAX_BITS`, or raise a decimal to a power of more
than `MAX_EXPONENT_BITS`, `NumberTooLarge` is raised instead. The limit is applied where numbers are
computed, because formulas are evaluated in many places: while they are parsed, in fractions and
functions, and during comparison.
"""

import math
from collections.abc import Callable
from typing import Any

import sympy.core.evalf
import sympy.core.numbers
from sympy import Integer, Rational, binomial, factorial, factorial2, subfactorial

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
