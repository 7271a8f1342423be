"""Tests of cells of imports whose logs lack the number of concurrent sessions."""

from contextlib import closing
from pathlib import Path

from tutti import storage
from tutti.tasks.exchange import ImportedAttempt
from tutti.tasks.exchange.base.imported import Cell
from tutti.tasks.exchange.loader import load
from tutti.tasks.reporting.measures.numbers import ABSENT, at_once
from tutti.tasks.reporting.text.columns import IDENTITY, OUTCOME
from tutti.tasks.reporting.text.words import load_findings
from tutti.tasks.sweeps.results.summary import load_points, summarise, with_known_load


def test_the_score_is_shown_and_no_load_and_no_rate(tmp_path: Path) -> None:
    """Tables have dashes, and no finding mentions a load."""
    home = storage.Home(tmp_path / "store")
    right = {"status": "ok", "score": 1.0, "correct": True}
    found = [ImportedAttempt(Cell("r", "b", "m"), f"t{n}", outcome=right) for n in range(3)]
    with storage.open_catalog(home) as catalog:
        load(catalog, found, "test")
    (sweep,) = storage.query("select sweep_id from sweeps", home)
    with closing(storage.connect(home)) as connection:
        cells = summarise(connection, sweep["sweep_id"])
    (cell,) = cells
    shown = IDENTITY["policy"](cell), IDENTITY["at once"](cell), OUTCOME["steps/min"](cell)
    assert shown == ("unknown", ABSENT, ABSENT)
    assert OUTCOME["accuracy"](cell) != ABSENT
    (point,) = load_points(cells)
    assert (point.rate, at_once(point.concurrency)) == (None, "load unknown")
    assert with_known_load(cells) == []
    assert "at once" not in " ".join(load_findings(cells, [], []))
