"""Student's t and the binomial, from scipy.

scipy is loaded on first use: reports are imported more often than computed.
`scipy.special` has all that is needed and loads in a tenth of the time of `scipy.stats`.
"""

from statistics import NormalDist


def normal_quantile(share: float) -> float:
    """The quantile of the standard normal distribution at `share`."""
    return NormalDist().inv_cdf(share)


def t_quantile(share: float, df: float) -> float:
    """The quantile of Student's distribution with `df` degrees of freedom at `share`."""
    from scipy.special import stdtrit  # type: ignore[import-untyped, unused-ignore]

    return float(stdtrit(df, share))


def t_tails(t: float, df: float) -> float:
    """P(|T| >= |t|) under Student's distribution: the two-sided p of a t statistic."""
    from scipy.special import stdtr  # type: ignore[import-untyped, unused-ignore]

    return float(2 * stdtr(df, -abs(t)))


def coin_tails(heads: int, tosses: int) -> float:
    """Two-sided p of `heads` in `tosses` of a fair coin; 1 for no tosses."""
    from scipy.special import bdtr  # type: ignore[import-untyped, unused-ignore]

    return min(1.0, 2 * float(bdtr(min(heads, tosses - heads), tosses, 0.5))) if tosses else 1.0


def noncentral_shift(power: float, critical: float, df: float) -> float:
    """The noncentrality at which a t statistic exceeds `critical` with probability `power`."""
    from scipy.special import nctdtrinc  # type: ignore[import-untyped, unused-ignore]

    return float(nctdtrinc(df, 1 - power, critical))
