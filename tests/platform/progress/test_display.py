"""Tests of the progress line of a whole sweep and of its display."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tutti.tasks.platform.progress.display import StageProgress
from tutti.tasks.sweeps.run.progress import SweepProgress


class Clock:
    """Clock with seconds set by a test."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_line_says_how_far_a_sweep_is() -> None:
    """There are two cells of a hundred samples, one reused; a second per sample, ten finished."""
    clock = Clock()
    sweep = SweepProgress({"a": 100, "b": 100, "c": 100}, finished=["a"], clock=clock)
    assert sweep.line() == "1 of 3 cells, 200 samples left"
    for done in range(1, 11):
        clock.now += 1
        sweep.tell("b", done, done, done // 2, 1)
    expected = "1 of 3 cells, 190 samples left, 1 samples/s, ETA 3 min 10 s, "
    assert sweep.line() == expected + "accuracy 50.0 % [23.7 to 76.3], 1 infra errors"


def test_what_was_done_before_is_not_fast() -> None:
    """A resumed cell starts with 90 finished samples, which are not part of the rate."""
    clock = Clock()
    sweep = SweepProgress({"a": 100}, clock=clock)
    clock.now = 2.0
    sweep.tell("a", 91, 91, 91, 0)
    assert "9 samples left, 0.5 samples/s, ETA 18 s" in sweep.line()


def test_a_cell_that_ended_early_has_nothing_left() -> None:
    """The remaining samples of such a cell are not counted as open."""
    sweep = SweepProgress({"a": 100, "b": 5})
    sweep.tell("a", 3, 3, 3, 0)
    sweep.finish("a")
    assert sweep.line().startswith("1 of 2 cells, 5 samples left")


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 100)), max_size=30))
def test_the_rate_is_never_negative(told: list[tuple[str, float]]) -> None:
    """In any order of reports, the open samples decrease and the rate is not below 0."""
    clock, done = Clock(), {"a": 0, "b": 0}
    sweep = SweepProgress({"a": 40, "b": 40}, clock=clock)
    for cell, waited in told:
        clock.now += waited
        done[cell] += 1
        sweep.tell(cell, done[cell], done[cell], 0, 0)
        assert f"{80 - sum(done.values())} samples left" in sweep.line()
        assert "-" not in sweep.line()


def test_a_stage_without_a_total_spins() -> None:
    """There is no bar at 0 of an unknown number; a bar appears when the total is known."""
    console = Console(file=io.StringIO(), width=80, force_terminal=True, record=True)
    with StageProgress("engine", console) as stage:
        console.print(*stage._bar.get_renderables())
        spins = console.export_text(clear=True)
        stage.show(0, 0)
        console.print(*stage._bar.get_renderables())
        spins += console.export_text(clear=True)
        stage.show(1, 4)
        console.print(*stage._bar.get_renderables())
        counts = console.export_text()
    assert "engine" in spins and "━" not in spins and "0/" not in spins and "%" not in spins
    assert "━" in counts and "1/4" in counts


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_long_name_leaves_the_count_and_the_time(width: int) -> None:
    """The end of the name is kept: policy, concurrency and accuracy."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, record=True)
    with StageProgress("gsm8k-mock-127-0-0-1-8911: mock passthrough at 16", console) as stage:
        stage.show(17, 1000, "accuracy 65%")
        console.export_text(clear=True)
        console.print(*stage._bar.get_renderables())
        line = console.export_text().splitlines()[0]  # then the display's own
    assert "at 16 accuracy 65% " in line and "17/1000 0:00:0" in line and len(line) <= width
    assert ("gsm8k" in line) == (width > 100)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_line_is_shown(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is below the bar in a terminal, and logged periodically otherwise."""
    monkeypatch.setattr("tutti.tasks.platform.progress.display.SHOW_S", -1.0)
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=is_terminal)
    with StageProgress("a cell", console) as stage:
        stage.show(1, 2, "accuracy 100 %", "3 of 9 cells [x]")
    assert "sweep: 3 of 9 cells [x]" in stream.getvalue()
    assert stage.note == "accuracy 100 %; sweep: 3 of 9 cells [x]"
    stage.show(2, 2)
    assert stage.note == ""
