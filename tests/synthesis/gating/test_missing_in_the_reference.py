"""Filters that ToolScale states or needs and no released code has: a made-up set with each defect
goes through the real route and loses the tasks to the right gate. With that gate out the same route
keeps them, so that it is the gate which does it."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.conftest import NewCatalog
from tests.synthesis.domains.tau2_double import loaded
from tests.synthesis.gating.defects import DEFECTS, MARK, Defect, DefectiveLending
from tutti import storage
from tutti.tasks.synthesis.domains import DomainTask, read_domain_folder, write_tau2_folder
from tutti.tasks.synthesis.gating import GATES
from tutti.tasks.synthesis.gating.gate import PASSED, Examples, Gate, GateBench, Verdict
from tutti.tasks.synthesis.making.make import make_domain_set
from tutti.tasks.synthesis.making.request import DomainRequest
from tutti.tasks.synthesis.programs import PROGRAMS

ROWS = "select task_id, status, reason, difficulty from tasks where task_set_id = $id"


class GateOut:
    """A gate whose verdicts are not read. What it does for the gates after it, it still does."""

    def __init__(self, gate: Gate) -> None:
        self._gate, self.name, self.about = gate, gate.name, gate.about

    async def judge(self, tasks: Sequence[DomainTask], bench: GateBench) -> list[Verdict]:
        await self._gate.judge(tasks, bench)
        return [PASSED] * len(tasks)

    def examples(self) -> Examples:
        return self._gate.examples()


@pytest.fixture
def catalog(tmp_path: Path, new_catalog: NewCatalog) -> Iterator[storage.Catalog]:
    with new_catalog(storage.Home(tmp_path / "store")) as opened:
        yield opened


def made(catalog: storage.Catalog, size: int) -> tuple[str, dict[str, tuple[str, str]]]:
    """A set, and (status, reason) of its tasks with the defect."""
    request = DomainRequest(domain="lending", size=size, instance_tasks=size)
    task_set = make_domain_set(request, catalog)
    rows = storage.query(ROWS, catalog.home, {"id": task_set})
    marked = [row for row in rows if MARK in json.loads(row["difficulty"])]
    return task_set, {row["task_id"]: (row["status"], row["reason"]) for row in marked}


def take_out(names: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in names:
        monkeypatch.setitem(GATES, name, GateOut(GATES[name]))


@pytest.mark.parametrize("defect", DEFECTS.values(), ids=DEFECTS)
def test_a_defect_is_dropped_by_its_gate_and_kept_without(
    defect: Defect, catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PROGRAMS, "lending", DefectiveLending(defect))
    _, found = made(catalog, 20)
    assert len(found) >= 19
    for status, reason in found.values():
        assert status == "rejected"
        assert re.match(f"{defect.gate}: {defect.reason}", reason), reason
    take_out((defect.gate, *defect.also), monkeypatch)
    _, kept = made(catalog, 21)  # another size: another request
    assert len(kept) >= 9 and {status for status, _ in kept.values()} == {"accepted"}


@pytest.mark.parametrize("name", [name for name, each in DEFECTS.items() if each.also])
def test_what_two_gates_would_see_is_dropped_without_the_first(
    name: str, catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    defect = DEFECTS[name]
    monkeypatch.setitem(PROGRAMS, "lending", DefectiveLending(defect))
    take_out((defect.gate,), monkeypatch)
    _, found = made(catalog, 20)
    assert {reason.split(":")[0] for _, reason in found.values()} == {defect.also[0]}


def test_what_passed_converts_to_tau2_and_what_was_dropped_does_not(
    catalog: storage.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody converted the reference's drafts. Each task that passed is one in tau2's form, and its
    golden actions lead to our state; a record that does not fit breaks there, too."""
    name = "nobody reads that schema and records do not fit"
    monkeypatch.setitem(PROGRAMS, "lending", DefectiveLending(DEFECTS[name]))

    def converted(task_set: str, where: Path) -> int:
        (folder,) = catalog.home.artifact_folder(task_set).glob("lending-*")
        domain, tasks = read_domain_folder(folder)
        expected = {task.task_id: task for task in tasks}
        write_tau2_folder(where, domain, expected.values())
        with loaded(where, "lending") as tau2:
            for one in tau2.tasks(None):
                tools = tau2.environment().tools
                for table, keyed in expected[one.id].changed.items():
                    for key, fields in keyed.items():
                        getattr(tools.db, table)[key] = type(getattr(tools.db, table)[key])(
                            **{**domain.records[table][key], **fields}
                        )
                for action in one.evaluation_criteria["actions"]:
                    tools.use_tool(action["name"], **action["arguments"])
                assert tools.get_db_hash() == expected[one.id].expected
        return len(expected)

    assert converted(made(catalog, 20)[0], tmp_path / "passed") == 20
    take_out(("records",), monkeypatch)
    with pytest.raises(ValueError, match="title"):
        converted(made(catalog, 21)[0], tmp_path / "kept")
