"""Tests of pass rates on a task set's page: by skill, with intervals over tasks, and levels."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import NewCatalog
from tutti import storage
from tutti.tasks.reporting.measures.table import Table
from tutti.tasks.reporting.task_set import build_task_set_report, pass_rates, skill_rates
from tutti.tasks.scoring.statistics import wilson


def rows_of(skill: str, *outcomes: list[int] | None, level: str = "") -> list[dict[str, Any]]:
    return [
        {"skill": skill, "level": level, "task_id": f"{skill}{n}", "outcomes": each}
        for n, each in enumerate(outcomes)
    ]


def test_attempts_at_one_task_count_as_one() -> None:
    """Four tasks with one attempt have Wilson's interval; ten equal attempts each leave it
    unchanged."""
    (once,) = skill_rates(rows_of("a", [1], [1], [0], [0]))
    (often,) = skill_rates(rows_of("a", [1] * 10, [1] * 10, [0] * 10, [0] * 10))
    assert (once["low"], once["high"]) == pytest.approx(wilson(2, 4))
    assert once["rate"] == often["rate"] == 0.5 and often["attempts"] == 40
    assert often["low"] <= once["low"] + 0.05


def test_tasks_without_attempts_are_counted_and_not_averaged() -> None:
    a, b = skill_rates([*rows_of("a", [1], None, None), *rows_of("b", None)])
    assert (a["tasks"], a["measured"], a["rate"]) == (3, 1, 1.0)
    assert a["low"] == pytest.approx(0.2065, abs=1e-4) and a["high"] == 1.0, "one task counts once"
    assert (b["tasks"], b["measured"], b["rate"]) == (1, 0, None)


def test_nothing_measured_is_no_section() -> None:
    assert not any(each.parts for each in pass_rates(rows_of("a", None)))
    _, levels = pass_rates(rows_of("a", None, level="hard"))
    (table,) = levels.parts
    assert isinstance(table, Table) and table.texts["level"] == ["hard"]


def test_the_page_of_a_set_over_the_library(tmp_path: Path, new_catalog: NewCatalog) -> None:
    """Tasks of the set are attempted under their own ids; the skill is the family."""
    with new_catalog(storage.Home(tmp_path / "store")) as catalog:
        own = {"task_set_id": "task_set:aa", "family": "module", "status": "accepted"}
        tasks = [own | {"task_id": f"t{n}", "split": "test", "question": "?", "answer": "!",
                        "slots": '{"module": "x"}', "sources": []} for n in range(2)]  # fmt: skip
        attempts = [{"attempt_id": f"a{n}", "task_id": "t0", "status": "ok", "correct": n == 0}
                    for n in range(2)]  # fmt: skip
        storage.commit(catalog, {"tasks": tasks, "attempts": attempts})
        catalog.enter_artifact("task_set:aa", {"name": "x", "accepted": 2, "request": "r"})
        with closing(storage.connect(catalog.home)) as connection:
            report = build_task_set_report(connection, "task_set:aa", tmp_path / "page")
    page = report.page.read_text()
    assert "Pass rate by skill" in page and "module" in page and "50.0 %" in page
