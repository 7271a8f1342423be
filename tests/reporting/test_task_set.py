"""Tests of a task set's page: gates, drops with reasons, examples, difficulty, and escaping."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import NewCatalog
from tutti import storage
from tutti.errors import UsageError
from tutti.tasks.reporting.task_set import build_task_set_report

SET = "task_set:00000000000000aa"


@pytest.fixture()
def home(tmp_path: Path, new_catalog: NewCatalog) -> Iterator[storage.Home]:
    """Yield a store with eleven candidates of two templates: one leaks its answer, two are
    duplicates."""
    with new_catalog(storage.Home(tmp_path / "store")) as catalog:
        tasks = [task(n) for n in range(11)]
        said = [verdict(n, gate, place) for n in range(11) for place, gate in enumerate(GATES, 1)]
        said = [each for each in said if not (each["task_id"] == "t0" and each["position"] > 1)]
        storage.commit(catalog, {"tasks": tasks, "gate_verdicts": said})
        detail = {"name": "<b>desk</b>", "accepted": 8, "candidates": 11, "compared_with": 40}
        catalog.enter_artifact(SET, detail | {"request": "x", "asked": {"size": 8}})
        yield catalog.home


GATES = ("leak", "duplicates")


def task(n: int) -> dict[str, Any]:
    row: dict[str, Any] = {"task_set_id": SET, "task_id": f"t{n}", "family": "desk"}
    row |= {"split": "test"}
    row |= {"template": "a<b" if n % 2 else "b", "question": f"<i>asks</i> {n}", "answer": f"A{n}"}
    row |= {"sources": [f"loans/L{n}"], "difficulty": f'{{"hops": {n % 3}}}'}
    return row | {"status": "rejected" if n in (0, 4, 5) else "accepted", "reason": "said"}


def verdict(n: int, gate: str, place: int) -> dict[str, Any]:
    wrong = (gate, n) in (("leak", 0), ("duplicates", 4), ("duplicates", 5))
    row = {"task_set_id": SET, "task_id": f"t{n}", "gate": gate, "position": place}
    return row | {
        "passed": not wrong,
        "reason": f"<u>why</u> {n}" if wrong else "",
        "measured": 0.5,
    }


def test_the_page_says_what_was_made_and_dropped(home: storage.Home, tmp_path: Path) -> None:
    with closing(storage.connect(home)) as connection:
        report = build_task_set_report(connection, SET, tmp_path / "page")
    page = report.page.read_text()
    assert report.findings == [
        "8 of 11 candidates are in the set (72.7 %).",
        "Most drops: duplicates, 2.",
        "Compared with 40 questions of benchmarks.",
    ]
    for words in ("a&lt;b", "&lt;i&gt;asks&lt;/i&gt;", "&lt;u&gt;why&lt;/u&gt; 4", "hops"):
        assert words in page
    for raw in ("<i>asks", "<u>why", "<b>desk"):
        assert raw not in page, "texts of a set are no markup"


def test_an_unknown_set_is_named(home: storage.Home, tmp_path: Path) -> None:
    with (
        closing(storage.connect(home)) as connection,
        pytest.raises(UsageError, match=r"no task set 'task_set:9'"),
    ):
        build_task_set_report(connection, "task_set:9", tmp_path / "page")
