"""Tests that a report names the scorer of its attempts and the cases where a later scorer
disagrees."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.reporting.conftest import START, Cell, build_store
from tutti import storage
from tutti.tasks.benchmarks import BENCHMARKS
from tutti.tasks.reporting import build_report
from tutti.tasks.reporting.measures.validity import ScorerUse, scorer_findings, scorer_uses
from tutti.tasks.scoring import SCORERS
from tutti.tasks.scoring.published import WHOSE
from tutti.tasks.sweeps.results.tables import focus


def scored(cell: Cell, scorer: str, wrong: int, day: int) -> list[dict[str, Any]]:
    """Return a score for each attempt; the first `wrong` correct ones are scored as wrong."""
    return [
        {
            "sweep_id": cell.sweep_id,
            "cell_id": cell.cell_id,
            "attempt_id": f"{cell.cell_id}-{i}",
            "scorer": scorer,
            "scorer_version": "1",
            "correct": wrong <= i < cell.correct,
            "scored_at": START + timedelta(days=day),
        }
        for i in range(cell.samples - 1)  # the last one hit its limit
    ]


def test_the_newest_scores_are_shown_and_the_others_named(tmp_path: Path) -> None:
    cell = Cell("s", "m", "cap", 2, 1.0, 40, 30, failed=False)
    home = build_store(tmp_path / "store", (cell,))
    with storage.open_catalog(home) as catalog:
        storage.commit(catalog, {"scores": scored(cell, "numeric", 0, 0)})
        storage.commit(catalog, {"scores": scored(cell, "judge", 3, 1)})
    with storage.connect(home) as connection:
        with focus(connection, ["s"]) as focused:
            uses = scorer_uses(focused)
        report = build_report(connection, ["s"], tmp_path / "page", "t", {}, files=False)
    assert [(use.name, use.n, use.differing) for use in uses] == [
        ("numeric 1", 39, 3),
        ("judge 1", 39, 0),
    ]
    assert report.cells[0].correct == 27
    assert scorer_findings(uses) == [
        "Scored by judge 1 (tutti's own rule, three votes; n = 39, 2026-01-02).",
        "numeric 1 (2026-01-01) judges 3 of 39 attempts otherwise; this report shows the newest "
        "verdict of each attempt.",
    ]
    assert set(scorer_findings(uses)) <= set(report.findings)


def test_whose_rule_it_was_stands_beside_the_name() -> None:
    """A publisher's rule is shown with its program and version, ours as ours; a single rule is not
    named."""
    use = ScorerUse("bfcl_ast", "1", 4, 0, START, START)
    said = "Scored by bfcl_ast 1 (BFCL V4, bfcl-eval 2026.3.23; n = 4, 2026-01-01)."
    assert scorer_findings([use]) == [said]
    assert set(WHOSE) <= set(SCORERS)
    others = {rule for each in BENCHMARKS.values() for rule in each.rules.values()}
    several = {each.scorer for each in BENCHMARKS.values() if each.rules} | others
    assert several <= set(WHOSE)


def test_imported_scores_may_have_neither_version_nor_time(tmp_path: Path) -> None:
    """Scores of Terminal-Bench are an example: they are the attempts' verdicts, and none
    differs."""
    cell = Cell("s", "m", "cap", 2, 1.0, 40, 30, failed=False)
    rows = [
        row | {"scored_at": None, "scorer_version": None}
        for row in scored(cell, "terminal-bench", 0, 0)
    ]
    home = build_store(tmp_path / "store", (cell,))
    with storage.open_catalog(home) as catalog:
        storage.commit(catalog, {"scores": rows})
    with storage.connect(home) as connection, focus(connection, ["s"]) as focused:
        uses = scorer_uses(focused)
    assert scorer_findings(uses) == ["Scored by terminal-bench (n = 39)."]
    later = ScorerUse("terminal-bench", None, 4, 1, None, None)
    (said,) = scorer_findings([later])
    assert said.startswith("terminal-bench judges 1 of 4 attempts otherwise; ")


def test_a_store_without_scores_names_none() -> None:
    assert scorer_findings([]) == []
