"""A gate's outcome as a sentence with its figures, for alerts and pages.

``score 70.0 -> 49.0 % (n = 100, -21.0 points [-33.0, -9.0])``
"""

from collections.abc import Callable

from tutti.tasks.sweeps.judge.gates import Outcome

Format = Callable[[float], str]
PERCENT: Format = lambda value: f"{100 * value:.1f} %"  # noqa: E731
VALUES: dict[str, Format] = {
    "score": PERCENT,
    "infra_share": PERCENT,
    "cost_usd": lambda value: f"{value:.4g} USD",
    "cost_per_solved": lambda value: f"{value:.4g} USD",
    "working_s": lambda value: f"{value:.1f} s",
    "step_latency_p95": lambda value: f"{value:.2f} s",
    "steps_per_min": lambda value: f"{value:,.0f}",
}
COUNTED = {"steps_per_min": " steps", "step_latency_p95": " steps"}
"""What n counts where it is not tasks."""


def outcome_words(outcome: Outcome) -> str:
    """The outcome's figures; empty where nothing was measured."""
    metric, value = outcome.gate.metric, VALUES[outcome.gate.metric]
    if outcome.after is None:
        return ""
    n = f"n = {outcome.n:,}{COUNTED.get(metric, '')}" if outcome.n is not None else ""
    if outcome.before is None:
        both = _interval(outcome, value)
        return f"{metric} {value(outcome.after)}{both} ({n})"
    change = ", ".join(each for each in (n, _change(outcome)) if each)
    return f"{metric} {value(outcome.before)} -> {value(outcome.after)} ({change})"


def _change(outcome: Outcome) -> str:
    """The difference from the baseline: of scores in points, of others as a share."""
    if outcome.value is None:
        return ""
    unit = " points" if outcome.gate.metric == "score" else " %"
    said = f"{100 * outcome.value:+.1f}{unit}"
    return said + _interval(outcome, lambda value: f"{100 * value:+.1f}")


def _interval(outcome: Outcome, value: Format) -> str:
    if outcome.low is None or outcome.high is None:
        return ""
    return f" [{value(outcome.low)}, {value(outcome.high)}]"
