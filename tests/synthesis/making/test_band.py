"""Tests of selecting the tasks of a measured set whose pass@k is in a band; each of the others has
its reason."""

from collections.abc import Iterator
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import NewCatalog
from tests.synthesis.lending import Lending
from tests.synthesis.made import made_set
from tutti import storage
from tutti.errors import UsageError
from tutti.tasks.synthesis.domains import read_domain_folder
from tutti.tasks.synthesis.making.band import BandRequest, BandSource, Rate, pass_at_k
from tutti.tasks.synthesis.making.by_program import DomainRequest, DomainSource
from tutti.tasks.synthesis.programs import PROGRAMS
from tutti.tasks.task_sets import NothingMade


@given(st.integers(1, 8), st.data())
def test_pass_at_k_is_the_share_of_draws_with_a_solution(n: int, data: st.DataObject) -> None:
    solved, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    draws = list(combinations([place < solved for place in range(n)], k))
    share = sum(any(draw) for draw in draws) / comb(n, k)
    assert pass_at_k(Rate(n, solved), k) == pytest.approx(share)


@pytest.fixture
def measured(
    tmp_path: Path, new_catalog: NewCatalog, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[storage.Catalog, str, list[str]]]:
    """Yield six tasks with four attempts each, of which 0, 1, 2, 3, 4 were correct; the last has
    none. One more attempt failed for infrastructure reasons, and another model solved all."""
    monkeypatch.setitem(PROGRAMS, "lending", Lending())
    with new_catalog(storage.Home(tmp_path / "store")) as catalog:
        made = made_set(DomainSource(DomainRequest(domain="lending", size=6)), catalog)
        (folder,) = catalog.home.artifact_folder(made).glob("lending-*")
        ids = [task.task_id for task in read_domain_folder(folder)[1]]
        rows: list[dict[str, Any]] = []
        for place in range(5):
            known = {"task_id": ids[place], "status": "ok"}
            for n in range(4):
                rows.append(
                    known | {"model": "m", "correct": n < place, "attempt_id": f"{place}{n}"}
                )
            rows.append(known | {"model": "m", "status": "infra_error", "attempt_id": f"{place}i"})
            rows.append(known | {"model": "other", "correct": True, "attempt_id": f"{place}o"})
        items = [
            {"task_set_id": "task_set:b", "task_id": each, "slots": f'{{"id": "{each}"}}'}
            for each in ids
        ]
        storage.commit(catalog, {"attempts": rows, "tasks": items})
        yield catalog, made, ids


def test_the_band_keeps_what_is_sometimes_solved(
    measured: tuple[storage.Catalog, str, list[str]],
) -> None:
    catalog, made, ids = measured
    asked = BandRequest(task_set=made, low=0.25, high=0.75, models=("m",))
    kept = made_set(BandSource(asked, catalog), catalog)
    assert made_set(BandSource(asked, catalog), catalog) == kept
    (folder,) = catalog.home.artifact_folder(kept).glob("lending-*")
    assert {task.task_id for task in read_domain_folder(folder)[1]} == set(ids[1:4])
    rows = storage.query(
        "select task_id, passed, reason, measured from gate_verdicts where task_set_id = $id",
        catalog.home,
        {"id": kept},
    )
    said = {row["task_id"]: row for row in rows}
    assert len(rows) == 6 and said[ids[2]]["measured"] == 0.5
    why = said[ids[0]]["reason"]
    assert why == "pass@1 is 0.00 (0 of 4 attempts solved it), not 0.25 to 0.75"
    assert said[ids[5]]["reason"] == "0 attempts on record; pass@1 needs 1"
    parents = storage.query(
        "select parent_id from artifact_parents where artifact_id = $id", catalog.home, {"id": kept}
    )
    assert parents == [{"parent_id": made}]


def test_an_empty_band_and_an_unknown_set_are_said(
    measured: tuple[storage.Catalog, str, list[str]],
) -> None:
    catalog, made, _ = measured
    with pytest.raises(NothingMade, match=r"no task passes pass_at_k; .* pass@9 needs 9"):
        made_set(BandSource(BandRequest(task_set=made, k=9), catalog), catalog)
    with pytest.raises(UsageError, match="no task set 'task_set:9' of a domain"):
        made_set(BandSource(BandRequest(task_set="task_set:9"), catalog), catalog)
