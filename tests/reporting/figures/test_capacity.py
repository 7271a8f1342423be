"""Load reached, the client as an instrument, goodput and the cost of a solved task."""

from collections.abc import Callable
from pathlib import Path

import pytest
from duckdb import DuckDBPyConnection

from tutti.tasks.reporting import Report, build_report
from tutti.tasks.reporting.measures.efficiency import SLACK, Efficiency, Estimate, efficiencies
from tutti.tasks.sweeps.results import summarise
from tutti.tasks.sweeps.results.reached import Reached, client_fault
from tutti.tasks.sweeps.results.summary import cells_of
from tutti.tasks.sweeps.results.tables import focus

Connect = Callable[..., DuckDBPyConnection]
LONG = {"samples": 40, "correct": 33, "step_s": 2.0}


def worth(connection: DuckDBPyConnection) -> list[Efficiency]:
    """Return the efficiencies of the sweep `s`."""
    with focus(connection, ["s"]) as focused:
        return efficiencies(focused, cells_of(focused, "s"))


@pytest.mark.parametrize(
    ("found", "asked", "sessions", "is_fault"),
    [
        (Reached(), 8, 1.0, False),  # nothing is known of the client
        (Reached(lag_p99_s=2.0, lag_max_s=9.0, cpu_share=0.1), 8, 1.0, False),  # no effect
        (Reached(intended_p95_s=2.09), 8, 8.0, False),
        (Reached(intended_p95_s=2.11), 8, 8.0, True),  # over a twentieth of 2 s
        (Reached(intended_p95_s=2.11, late_p95_s=0.1), 8, 8.0, False),  # its starts are late
        (Reached(cpu_share=0.91), 100, 97.9, True),
        (Reached(cpu_share=0.91), 100, 98.0, False),
        (Reached(cpu_share=0.91), 100, None, False),
        # An open loop asks for starts, not for sessions.
        (Reached(cpu_share=0.91, late_p95_s=0.2), 100, 120.0, True),
        (Reached(cpu_share=0.91, late_p95_s=0.01), 100, 50.0, False),
    ],
)
def test_when_the_client_is_the_bottleneck(
    found: Reached, asked: int, sessions: float | None, is_fault: bool
) -> None:
    """The documented rule is checked at its boundaries."""
    assert (client_fault(found, asked, sessions, 2.0) is not None) == is_fault


def test_the_client_is_marked_and_said(connect_to: Connect, tmp_path: Path) -> None:
    """A slow client is marked in the rows, the text and the page; its samples are not those of an
    engine."""
    slow = LONG | {"lag_s": 0.12, "gap_s": 0.25}
    report = build_report(connect_to(slow), ["s"], tmp_path, "t", {}, files=False)
    (cell,) = report.cells
    assert (cell.reached.lag_p99_s, cell.reached.lag_max_s) == pytest.approx((0.12, 0.12))
    assert cell.client_fault == "it added 0.25 s to the p95 of step latency (2.00 s)"
    assert any("The client was the bottleneck in the only cell" in said for said in report.findings)
    assert "bottleneck" in report.page.read_text()
    assert cell.running_mean == 2  # as without the client's samples


def test_late_starts_and_latency_from_the_intended_start(connect_to: Connect) -> None:
    """Attempts start 3 s late, and one step in four waits that long before its send."""
    cells = summarise(connect_to(LONG | {"late_s": 3.0}), "s")
    reached = cells[0].reached
    assert (reached.late_p50_s, reached.late_p95_s) == pytest.approx((3, 3))
    assert cells[0].step_latency_p95 == pytest.approx(2.0)
    assert (reached.intended_p50_s, reached.intended_p95_s) == pytest.approx((2.0, 5.0))


def test_a_closed_loop_has_no_late_starts(connect_to: Connect) -> None:
    """An unknown value is absent, not 0; a step is due when its predecessor has ended."""
    reached = summarise(connect_to(LONG), "s")[0].reached
    assert reached.late_p50_s is None and reached.lag_p99_s is None and reached.cpu_share is None
    assert reached.intended_p95_s == pytest.approx(2.0)


def test_what_a_solved_task_takes(connect_to: Connect) -> None:
    """Cost, seconds and joules agree with the numbers from which the store was built."""
    (found,) = worth(connect_to(LONG | {"watts": 50.0}))
    assert found.solved == 33
    assert found.usd.value == pytest.approx(40 * 0.01 / 33)
    assert found.working_s.value == pytest.approx(40 * (8 - 0.6) / 33)
    assert found.seconds.value == pytest.approx(8)
    # The window [0.1, 152.1) holds the 33 that were solved, on two slots, at 2 x 50 W.
    assert found.joules.value == pytest.approx(152 * 100 / 33, rel=0.02)
    for figure in (found.usd, found.working_s, found.joules):
        assert figure.low is not None and figure.high is not None and figure.value is not None
        assert figure.low < figure.value < figure.high


def test_what_is_not_known_has_no_figure(connect_to: Connect) -> None:
    """Without power or price there are no joules and no USD; without a correct answer no figure is
    per solved task."""
    free, none = worth(connect_to(LONG | {"usd": 0.0}, LONG | {"policy": "x", "correct": 0}))
    assert free.usd.value is None and free.joules.value is None
    assert free.working_s.value is not None
    assert (none.usd.value, none.working_s.value, none.goodput.value) == (None, None, 0)


def test_goodput_is_of_the_quick(connect_to: Connect) -> None:
    """The limit is twice the baseline's p95 at the lowest load; slower attempts do not count as
    solved."""
    base = LONG | {"policy": "passthrough", "usd": 0.0}
    slow = base | {"concurrency": 8, "step_s": 4.5}
    quick, late = worth(connect_to(base, slow))
    assert quick.limit_s == late.limit_s == pytest.approx(SLACK * 2.0)
    assert quick.goodput.value == pytest.approx(33 / 152 * 3600, rel=0.01)
    assert late.goodput.value == 0
    assert quick.standing == "on" and late.standing in ("maybe", "off")


def test_repeats_have_one_goodput(connect_to: Connect) -> None:
    """Two repeats give the mean of both and an interval."""
    cells = LONG, LONG | {"repeat": 1, "step_s": 1.0}
    (found,) = worth(connect_to(*cells))
    assert found.goodput.value == pytest.approx(1.5 * 33 / 152 * 3600, rel=0.02)
    assert found.solved == 66 and found.goodput.interval is not None


@pytest.fixture
def full(connect_to: Connect, tmp_path: Path) -> Report:
    """Return a report with every figure and table."""
    cells = [
        LONG
        | {"policy": policy, "concurrency": load, "step_s": 0.2 * load, "jitter": 0.3}
        | {"usd": 0.01 if policy == "cap" else 0.02, "watts": 300.0, "lag_s": 0.001 * load}
        for load in (2, 8)
        for policy in ("passthrough", "cap")
    ]
    again = cells[0] | {"repeat": -1}
    early = cells[1] | {"concurrency": 64, "samples": 80, "step_s": 4.0, "late_s": 1.0}
    early |= {"status": "ended_early", "reason": "over-saturated: 212 of 400 steps", "lag_s": 0.1}
    old = cells[1] | {"concurrency": 4, "status": "superseded"}
    connection = connect_to(*cells, again, early, old)
    return build_report(connection, ["s"], tmp_path / "out", "Full", {})


def test_the_page_shows_all_of_it(full: Report) -> None:
    """The page has the figures, tables and texts; a superseded cell is in none of them."""
    assert "pareto" in full.plots
    page = full.page.read_text()
    for text in ("Load asked and reached", "What it is worth", "J/solved", "Noise floor", "A/A"):
        assert text in page
    assert ">4 at once<" not in page and all(cell.concurrency != 4 for cell in full.cells)
    said = " ".join(full.findings)
    assert "Ended early, counted as results, over-saturated: 212 of 400 steps: cap at 64" in said
    assert not any("ended_early" in gap for gap in full.gaps)
    assert "The client was the bottleneck in cap at 64 (A/A)" not in said


@pytest.mark.parametrize(
    ("status", "is_known"), [("ok", False), ("infra_error", False), ("cancelled", True)]
)
def test_an_unknown_cost_is_no_part_of_an_exact_one(
    connect_to: Connect, status: str, is_known: bool
) -> None:
    """Only attempts that ended count; the cost of an interrupted one is left out."""
    connection = connect_to({**LONG, "usd": 0.02})
    (before,) = worth(connection)
    assert before.usd.value == pytest.approx(0.02 * 40 / 33)
    connection.execute(
        "create table stored as from attempts; create or replace view attempts as from stored "
        "union all by name (select * replace ('lost' as attempt_id, null as cost_usd, "
        f"false as correct, '{status}' as status) from stored limit 1)"
    )
    (after,) = worth(connection)
    assert after.usd == (before.usd if is_known else Estimate())
