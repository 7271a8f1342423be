"""Tests of the statistics bench: every kind gives intervals, and the last line is complete."""

import json

import numpy as np
import pytest

from bench.statistics import run as statistics


@pytest.mark.parametrize("name", statistics.KINDS)
def test_every_kind_gives_an_interval(name: str) -> None:
    """The true value is finite, and the low end is below the high end."""
    truth, found = statistics.KINDS[name](np.random.default_rng(1))
    assert np.isfinite(truth)
    assert found is not None and found[0] < found[1]


def test_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The last line has the figures of the contract; few runs suffice to check this."""
    statistics.main(["--runs", "8"])
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])["figures"]
    assert {"coverage_min", "coverage_max", "false_alarm_rate"} <= figures.keys()
    assert figures["stated_alarm_rate"] == 0.05
