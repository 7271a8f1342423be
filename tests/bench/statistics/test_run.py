"""The bench of the statistics: every kind gives intervals, and the last line is whole."""

import json

import numpy as np
import pytest

from bench.statistics import run as statistics


@pytest.mark.parametrize("name", statistics.KINDS)
def test_every_kind_gives_an_interval(name: str) -> None:
    """Of a finite truth, the low end below the high one."""
    truth, found = statistics.KINDS[name](np.random.default_rng(1))
    assert np.isfinite(truth)
    assert found is not None and found[0] < found[1]


def test_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The contract's figures are there; few runs suffice to see it."""
    statistics.main(["--runs", "8"])
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])["figures"]
    assert {"coverage_min", "coverage_max", "false_alarm_rate"} <= figures.keys()
    assert figures["stated_alarm_rate"] == 0.05
