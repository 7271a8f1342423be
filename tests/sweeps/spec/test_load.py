"""Tests of the start of sessions: due times of open loops, traces, ramps, and errors."""

import json
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tutti.tasks.sweeps.spec.load import (
    CROWD,
    Load,
    read_trace,
)
from tutti.tasks.sweeps.spec.suite import SuiteError


def test_a_closed_loop_has_no_due_times() -> None:
    """All sessions start at once; each next sample starts when the previous one has ended."""
    assert Load().due_times(4, 100, seed=0) is None
    assert Load().ramp_starts(4) == [0.0] * 4


def test_a_ramp_starts_its_sessions_one_at_a_time() -> None:
    """The starts are spread evenly over its seconds."""
    assert Load(kind="ramp", over_s=8).ramp_starts(4) == [0, 2, 4, 6]


def test_poisson_arrivals_are_of_the_level() -> None:
    """The rate is level / session_s per second on average, with the spread of a Poisson process,
    seeded."""
    load = Load(kind="poisson", session_s=2.0)
    due = load.due_times(8, 20_000, seed=1)
    assert due is not None and list(due) == sorted(due)
    gaps = [b - a for a, b in pairwise(due)]
    mean = fmean(gaps)
    assert mean == pytest.approx(2.0 / 8, rel=0.03)
    assert fmean((gap - mean) ** 2 for gap in gaps) == pytest.approx(mean**2, rel=0.1)
    assert due == load.due_times(8, 20_000, seed=1) != load.due_times(8, 20_000, seed=2)
    assert load.sessions(8) == CROWD * 8


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40), st.floats(0.1, 10), st.integers(1, 40))
def test_a_trace_keeps_its_gaps(
    tmp_path_factory: pytest.TempPathFactory, at: list[float], speed: float, count: int
) -> None:
    """For any order and origin, the gaps are divided by the speed; a trace that is too short is an
    error."""
    path = tmp_path_factory.mktemp("trace") / "t.jsonl"
    path.write_text("\n".join(json.dumps({"at": each}) for each in at))
    load = Load(kind="trace", file=path, speed=speed)
    if count > len(at):
        with pytest.raises(SuiteError, match=f"{len(at)} arrivals for {count} samples"):
            load.due_times(2, count, seed=0)
        return
    found = load.due_times(2, count, seed=0)
    rising = sorted(at)
    assert found == pytest.approx([(each - rising[0]) / speed for each in rising[:count]])


@pytest.mark.parametrize("line", ['{"when": 3}', "soon", "[1]", '{"at": null}'])
def test_a_bad_line_of_a_trace_is_named(tmp_path: Path, line: str) -> None:
    """The error names file, line and value."""
    path = tmp_path / "t.jsonl"
    path.write_text(f"1.5\n{line}\n")
    with pytest.raises(SuiteError, match=r"line 1 column|1\..*given") as failure:
        read_trace(path)
    assert str(path) in str(failure.value)


def test_a_trace_may_be_a_list(tmp_path: Path) -> None:
    """`tutti sql --format json` writes such a list."""
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{"at": 12.5}, {"at": 10.0}]))
    assert read_trace(path) == [0.0, 2.5]
    path.write_text("[1, 2")
    with pytest.raises(SuiteError, match=r"t\.json"):
        read_trace(path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "poisson"},
        {"kind": "ramp"},
        {"kind": "trace"},
        {"kind": "closed", "over_s": 3},
        {"kind": "ramp", "over_s": 3, "session_s": 1},
        {"kind": "poisson", "session_s": 1, "speed": 2},
        {"kind": "ramp", "over_s": 0},
    ],
)
def test_a_load_has_what_its_kind_needs_and_nothing_else(wrong: dict[str, object]) -> None:
    """A key that would be ignored is an error."""
    with pytest.raises(ValidationError):
        Load.model_validate(wrong)


def test_a_trace_is_known_by_what_it_says(tmp_path: Path) -> None:
    """A copy at another path is the same load; a different arrival is another."""
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path, text in zip(paths, ("0\n1", "5\n6", "0\n2"), strict=True):
        path.write_text(text)
    contents = [Load(kind="trace", file=path).content for path in paths]
    assert contents[0] == contents[1] != contents[2]
