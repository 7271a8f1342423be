"""Tests of a gate's outcome as text: figures before and after, n, the change and its interval."""

from dataclasses import replace
from typing import Any

import pytest

from tutti.tasks.sweeps.analysis import Outcome
from tutti.tasks.sweeps.spec import Gate


def outcome(gate: Gate, **figures: Any) -> Outcome:
    known = {"value": None, "low": None, "high": None, "p": None, "n": 100}
    return Outcome(
        gate, "", "failed", "worse", reason="", cells_a=(), cells_b=(), **known | figures
    )


@pytest.mark.parametrize(
    ("gate", "figures", "words"),
    [
        (
            Gate(metric="score", margin=0.02),
            {"before": 0.7, "after": 0.49, "value": -0.21, "low": -0.33, "high": -0.09},
            "score 70.0 % -> 49.0 % (n = 100, -21.0 points [-33.0, -9.0])",
        ),
        (
            Gate(metric="cost_usd", margin=0.1),
            {"before": 0.01, "after": 0.014, "value": 0.4, "low": 0.3, "high": 0.5},
            "cost_usd 0.01 USD -> 0.014 USD (n = 100, +40.0 % [+30.0, +50.0])",
        ),
        (
            Gate(metric="steps_per_min", margin=0.1),
            {"before": 3100.0, "after": 2500.0, "value": -0.19, "n": 5000},
            "steps_per_min 3,100 -> 2,500 (n = 5,000 steps, -19.0 %)",
        ),
        (
            Gate(metric="score", at_least=0.6),
            {"after": 0.49, "value": 0.49, "low": 0.39, "high": 0.59},
            "score 49.0 % [39.0 %, 59.0 %] (n = 100)",
        ),
        (Gate(metric="working_s", at_most=3.0), {}, ""),
    ],
)
def test_the_figures_of_an_outcome(gate: Gate, figures: dict[str, Any], words: str) -> None:
    assert outcome(gate, **figures).words == words


def test_what_was_not_measured_has_no_figures() -> None:
    found = outcome(Gate(metric="score", margin=0.02), before=0.7, after=None)
    assert found.words == ""
    assert replace(found, after=0.5).words == "score 70.0 % -> 50.0 % (n = 100)"
