"""Tests that benchmarks with partially correct answers report their mean score everywhere.

The case is Sotopia's: four tasks, each scored .4286, none fully correct. It used to be shown as
"0.0 %" and "wrong answer".
"""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from duckdb import DuckDBPyConnection
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from tutti import storage
from tutti.storage import catalog as cat
from tutti.tasks.reporting import Report, build_report
from tutti.tasks.reporting.measures.failures import PARTLY, WRONG
from tutti.tasks.reporting.measures.numbers import MEAN_SCORE
from tutti.tasks.reporting.terminal import terminal_table
from tutti.tasks.scoring.statistics import mean_interval
from tutti.tasks.sweeps.analysis.compare import sampled
from tutti.tasks.sweeps.results import summarise
from tutti.tasks.sweeps.results.tables import focus, rows

SCORE = 3 / 7
Scores = dict[str, list[float]]
"""By task, a score a trial."""


def store(root: Path, scores: Scores, detail: dict[str, Any]) -> storage.Home:
    """Return a store with one cell of the sweep `s`, whose task set has the detail, with one
    attempt per minute."""
    home = storage.Home(root)
    attempts: list[dict[str, Any]] = [
        {"sweep_id": "s", "cell_id": "c", "attempt_id": f"{task}-{trial}", "task_id": task}
        | {"sample_id": f"{task}-{trial}", "trial": trial, "attempt": 1, "status": "ok"}
        | {"benchmark": "sotopia", "model": "m", "policy": "passthrough", "concurrency": 1}
        | {"score": score, "correct": score >= 1, "repeat": 0}
        | {"started_at": cat.now(), "ended_at": cat.now()}
        for task, trials in scores.items()
        for trial, score in enumerate(trials)
    ]
    calls: list[dict[str, Any]] = [
        {"sweep_id": "s", "cell_id": "c", "attempt_id": row["attempt_id"], "step": 1}
        | {"call_id": row["attempt_id"], "role": "orchestrator", "status": "ok"}
        | {"sent_at": row["started_at"], "ended_at": row["ended_at"]}
        for row in attempts
    ]
    tasks = [{"task_set_id": "task_set:1", "task_id": t, "family": "sotopia"} for t in scores]
    with storage.open_catalog(home) as catalog:
        storage.commit(catalog, {"attempts": attempts, "calls": calls, "tasks": tasks})
        catalog.upsert(cat.sweeps, {"sweep_id": "s", "name": "s", "spec": "{}"})
        cell: dict[str, Any] = {
            "cell_id": "c",
            "sweep_id": "s",
            "benchmark": "sotopia",
            "model": "m",
        }
        cell |= {"policy": "passthrough", "concurrency": 1, "repeat": 0, "position": 0}
        cell |= {"task_set_id": "task_set:1", "index_id": "", "samples": len(attempts)}
        catalog.upsert(cat.cells, cell | {"status": "finished"})
        catalog.enter_artifact("task_set:1", detail, [])
    return home


DECLARED = {"headline": {"measure": MEAN_SCORE}, "scorer": "mine"}
SOTOPIA = {f"t{nth}": [SCORE] for nth in range(4)}


@pytest.fixture(scope="module")
def sotopia(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDBPyConnection]:
    home = store(tmp_path_factory.mktemp("sotopia"), SOTOPIA, DECLARED)
    with closing(storage.connect(home)) as connection:
        yield connection


@pytest.fixture(scope="module")
def page(sotopia: DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> Report:
    return build_report(sotopia, ["s"], tmp_path_factory.mktemp("page"), "t", {}, files=False)


def test_the_mean_score_is_the_headline(sotopia: DuckDBPyConnection) -> None:
    (cell,) = summarise(sotopia, "s")
    assert (cell.measure, cell.n, cell.correct) == (MEAN_SCORE, 4, 0)
    assert cell.accuracy == pytest.approx(SCORE)
    assert cell.accuracy_low is not None and cell.accuracy_high is not None
    assert 0 < cell.accuracy_low < SCORE < cell.accuracy_high < 1


def test_the_terminal_and_the_page_show_it(page: Report) -> None:
    console = Console(width=80, force_terminal=False)
    with console.capture() as captured:
        console.print(terminal_table(page.cells))
    assert "0.429" in captured.get() and "mean score" in captured.get()
    text = page.page.read_text()
    assert "0.429" in text and "right in full" in text
    assert any("mean score 0.429 [" in said for said in page.findings), page.findings


def test_failures_say_partly_right(page: Report) -> None:
    assert [(each.error, each.n) for each in page.failed] == [(PARTLY, 4)]


def test_a_score_of_0_is_a_wrong_answer(tmp_path: Path) -> None:
    home = store(tmp_path, {"a": [0.0], "b": [0.5], "c": [1.0]}, DECLARED)
    with closing(storage.connect(home)) as connection, focus(connection, ["s"]) as focused:
        from tutti.tasks.reporting.measures.failures import failures

        assert {each.error: each.n for each in failures(focused, ["s"])} == {WRONG: 1, PARTLY: 1}


def test_scores_of_another_range_are_in_their_unit(tmp_path: Path) -> None:
    """Sotopia's mean of seven raw ratings can be below 0 and above 1. It is no percentage, has
    Student's interval, and is equal in the report and in `results`."""
    declared = {"headline": {"measure": MEAN_SCORE}, "scorer": "sotopia"}
    scores = {f"t{nth}": [value] for nth, value in enumerate((-4.2857, 3.0, 5.7143, 2.0))}
    with closing(storage.connect(store(tmp_path, scores, declared))) as connection:
        (cell,) = summarise(connection, "s")
        (row,) = rows(connection, "from results")
    mean = (-4.2857 + 3.0 + 5.7143 + 2.0) / 4
    assert cell.accuracy == pytest.approx(mean) and row["score"] == pytest.approx(mean)
    assert cell.accuracy_low is not None and cell.accuracy_low < 0 < 1 < mean
    assert (row["score_low"], row["score_high"]) == (
        pytest.approx(cell.accuracy_low),
        pytest.approx(cell.accuracy_high),
    )


def test_window_summary_and_results_agree(sotopia: DuckDBPyConnection) -> None:
    (window,) = rows(sotopia, "from window_summary('c', 0, 1e6)")
    assert window["accuracy"] == pytest.approx(SCORE)
    (row,) = rows(sotopia, "from results")
    assert row["measure"] == MEAN_SCORE and row["score"] == pytest.approx(SCORE)


@pytest.mark.parametrize(
    ("detail", "measure"),
    [
        ({"scorer": "rubric"}, MEAN_SCORE),
        ({"scorer": "reward"}, MEAN_SCORE),
        ({"scorer": "reward", "headline": {"measure": "accuracy"}}, "accuracy"),
        ({"scorer": "exact"}, MEAN_SCORE),
        ({"imported": "lm-eval"}, MEAN_SCORE),
    ],
)
def test_what_a_store_knows_decides(tmp_path: Path, detail: dict[str, Any], measure: str) -> None:
    """The measure comes from the declaration, else from the scorer of a store without declarations,
    else from the scores: one that is neither 0 nor 1 is fractional, as in imported logs whose own
    headline is a mean."""
    home = store(tmp_path, SOTOPIA, detail)
    with closing(storage.connect(home)) as connection:
        (cell,) = summarise(connection, "s")
        (row,) = rows(connection, "from results")
        (window,) = rows(connection, "from window_summary('c', 0, 1e6)")
    assert cell.measure == row["measure"] == measure
    expected = pytest.approx(SCORE if measure == MEAN_SCORE else 0.0)
    assert cell.accuracy == row["score"] == window["accuracy"] == expected


CASES: list[Scores] = [
    {"a": [0.2, 0.9], "b": [0.5], "c": [1.0, 1.0, 0.3]},
    {"a": [0.0, 1.0], "b": [1.0], "c": [1.0, 1.0, 0.0]},
    {f"t{nth}": [(nth % 7) / 6] for nth in range(40)},
    {"a": [1.0], "b": [1.0]},
    {"a": [0.25]},
    {"a": [2.5], "b": [-1.0], "c": [4.0]},
]


@pytest.mark.parametrize("scores", CASES, ids=range(len(CASES)))
def test_the_views_interval_is_the_reports(tmp_path: Path, scores: Scores) -> None:
    """The cases are repeated trials, scores of 0 and 1, many tasks, all correct, one task, and
    scores above 1."""
    home = store(tmp_path, scores, DECLARED)
    with closing(storage.connect(home)) as connection:
        (cell,) = summarise(connection, "s")
        (row,) = rows(connection, "from results")
    for column, value in (
        ("score", cell.accuracy),
        ("score_low", cell.accuracy_low),
        ("score_high", cell.accuracy_high),
    ):
        expected = None if value is None else pytest.approx(value, rel=1e-6, abs=1e-9)
        assert row[column] == expected, column


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=4), min_size=2, max_size=12))
@example([[0.9295311048774886, 0.6958349854930171]] * 3)  # whose mean is not the sum of three by 3
def test_the_interval_holds_the_mean_and_stays_in_range(groups: list[list[float]]) -> None:
    """This holds for any scores; copies of every trial do not change the interval, because they are
    not new tasks."""
    found = mean_interval(groups)
    assert found.low is not None and found.high is not None
    assert -1e-9 <= found.low <= found.value + 1e-9
    assert found.value - 1e-9 <= found.high <= 1 + 1e-9
    doubled = mean_interval([group * 2 for group in groups])
    assert doubled.value == pytest.approx(found.value) and doubled.n == found.n
    if not all(score in (0, 1) for group in groups for score in group):
        assert doubled.low == pytest.approx(found.low) and doubled.high == pytest.approx(found.high)


def test_accuracy_se_takes_trials_of_a_task_as_alike(tmp_path: Path) -> None:
    """Four tasks with eight equal trials each count as four attempts, not 32."""
    scores = {f"t{nth}": [float(nth < 2)] * 8 for nth in range(4)}
    with closing(storage.connect(store(tmp_path, scores, {"scorer": "exact"}))) as connection:
        (row,) = rows(connection, "from window_summary('c', 0, 1e6)")
    assert row["trials"] == 32 and row["accuracy"] == 0.5
    assert row["accuracy_se"] == pytest.approx((0.5 * 0.5 / 3) ** 0.5)  # not (.25 / 32) ** .5


def test_accuracy_se_is_that_of_the_statistics(tmp_path: Path) -> None:
    """With an equal number of trials per task it is that of `mean_interval`."""
    scores = {"a": [1.0, 0.0, 1.0], "b": [0.0, 0.0, 0.0], "c": [1.0, 1.0, 0.0]}
    with closing(storage.connect(store(tmp_path, scores, {"scorer": "exact"}))) as connection:
        (row,) = rows(connection, "from window_summary('c', 0, 1e6)")
    assert row["accuracy_se"] == pytest.approx(mean_interval(list(scores.values())).se)


def test_scores_by_subset(tmp_path: Path) -> None:
    """The subset is the attribute that the task set names, else `subset_for_metrics`; tasks without
    it are left out."""
    from tutti.tasks.reporting.measures.families import subset_scores

    home = store(tmp_path, {"a": [0.5], "b": [1.0], "c": [0.0]}, {**DECLARED, "subsets": "level"})
    slots = {"a": {"level": "5"}, "b": {"level": "5"}, "c": {"subset_for_metrics": "algebra"}}
    with storage.open_catalog(home) as catalog:
        storage.commit(
            catalog,
            {
                "tasks": [
                    {"task_set_id": "task_set:1", "task_id": task, "family": "sotopia"}
                    | {"slots": json.dumps(each)}
                    for task, each in slots.items()
                ]
            },
        )
    with closing(storage.connect(home)) as connection:
        found = {each.family: each for each in subset_scores(connection, "s")}
    assert {name: (each.n, each.accuracy) for name, each in found.items()} == {
        "sotopia-5": (2, 0.75),
        "sotopia-algebra": (1, 0.0),
    }


def test_comparisons_take_what_is_declared(tmp_path: Path) -> None:
    """If a benchmark declares accuracy, a half-correct answer is wrong; without a declaration it
    counts half."""
    cases: list[tuple[dict[str, Any], float]] = [
        ({"scorer": "ifeval", "headline": {"measure": "accuracy"}}, 0.0),
        ({"scorer": "ifeval"}, SCORE),
        (DECLARED, SCORE),
    ]
    for nth, (detail, expected) in enumerate(cases):
        home = store(tmp_path / str(nth), SOTOPIA, detail)
        with closing(storage.connect(home)) as connection:
            (row,) = rows(connection, "from compare('c', 'c')")
            side = sampled(connection, ["c"]).by_task("score")
        assert row["mean_a"] == pytest.approx(expected)
        assert side["t0"] == [pytest.approx(expected)]
