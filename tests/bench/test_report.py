"""Tests of a bench's output: the table lists missed targets, and the last line is the contract's
object."""

import json
import math

import pytest

from bench.report import Report, Target, shown


@pytest.fixture
def report() -> Report:
    made = Report("store", 3)
    made.figure("ingest_attempts_per_s", [9000.0, 7000.0, 8500.0], Target(8000, least=True))
    made.figure("cold_open_s", [0.7, 0.6, 0.65], Target(0.5))
    made.figure("build_s", [120.5])
    made.peer("sqlite", "attempts_per_s", [4000.0, 5000.0])
    made.note("said once")
    return made


def test_last_line_is_the_contracts_object(
    report: Report, capsys: pytest.CaptureFixture[str]
) -> None:
    report.show()
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(last) == {"bench", "figures", "peers", "repeats", "machine"}
    assert last["bench"] == "store" and last["repeats"] == 3
    medians = {"ingest_attempts_per_s": 8500.0, "cold_open_s": 0.65, "build_s": 120.5}
    assert last["figures"] == medians
    assert last["peers"] == {"sqlite": {"attempts_per_s": 4500.0}}
    assert last["machine"]["cores"] >= 1 and "load_1m_at_start" in last["machine"]


def test_table_shows_spread_and_what_was_missed(report: Report) -> None:
    lines = {line.split("  ")[0].strip(): line for line in report.table()}
    assert "met" in lines["ingest_attempts_per_s"] and "7,000" in lines["ingest_attempts_per_s"]
    assert "<= 0.500 MISSED" in lines["cold_open_s"]
    assert "met" not in lines["build_s"] and "MISSED" not in lines["build_s"]
    assert "sqlite: attempts_per_s" in lines
    assert report.table()[-1] == "said once"


def test_columns_are_aligned(report: Report) -> None:
    head, *rows = report.table()[1:-1]
    end = head.index("median") + len("median")
    assert all(row[end - 1] != " " and row[end] == " " for row in rows)


@pytest.mark.parametrize("values", [[], [math.nan], [1.0, math.inf]])
def test_what_is_no_measurement_is_refused(report: Report, values: list[float]) -> None:
    with pytest.raises(AssertionError, match="is no figure"):
        report.figure("another_s", values)


def test_a_figure_is_entered_once(report: Report) -> None:
    with pytest.raises(AssertionError, match="there already"):
        report.figure("build_s", [1.0])
    with pytest.raises(AssertionError, match="there already"):
        report.peer("sqlite", "attempts_per_s", [1.0])


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (12345.6, "12,346"), (45.67, "45.7"), (0.0123, "0.0123"), (-0.5, "-0.500")],
)
def test_numbers_have_the_digits_that_mean_something(value: float, text: str) -> None:
    assert shown(value) == text


def test_targets_hold_at_their_limit() -> None:
    assert Target(0.5).met(0.5) and not Target(0.5).met(0.51)
    assert Target(8000, least=True).met(8000) and not Target(8000, least=True).met(7999)
