"""A limit on the numbers that sympy computes, set in a worker before it reads any formula.

`9^{9^{9^9}}` is a short text and a number that no machine holds. Where sympy would compute an exact
power, factorial or binomial of more than `MAX_BITS`, or raise a decimal to a power of more than
`MAX_EXPONENT_BITS`, `NumberTooLarge` is raised instead. The limit stands where the number would be
made, because formulas are evaluated in many places: while they are read, in fractions and
functions, and in what the comparison makes of them.
"""

import math
from collections.abc import Callable
from typing import Any

import sympy.core.evalf
import sympy.core.numbers
from sympy import Integer, Rational, binomial, factorial, factorial2, subfactorial

MAX_BITS = 4_000_000  # computed within a second; contests' answers have at most some thousands
MAX_EXPONENT_BITS = 64  # of a decimal's power, which takes a squaring a bit
MAX_FACTORS = 10_000  # of a binomial, which sympy multiplies one by one
Compute = Callable[..., Any]
Bits = Callable[..., float]


class NumberTooLarge(BaseException):
    """A number beyond the limits.

    No Exception, as KeyboardInterrupt is none: sympy and math-verify catch those and try the same
    number another way.
    """


def limit_numbers() -> None:
    """Set the limits, for this process and for ever."""
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
