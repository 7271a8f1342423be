"""Tests of filters that ToolScale describes or needs and no released code has: a constructed set
with each defect goes through the real pipeline, and the right gate drops its tasks. With that gate
disabled the pipeline keeps them, so that gate is the cause."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.conftest import NewCatalog
from tests.synthesis.domains.tau2_double import loaded
from tests.synthesis.gating.defects import DEFECTS, MARK, Defect, DefectiveLending
from tests.synthesis.lending import Lending
from tests.synthesis.made import made_set
from tests.synthesis.making.measured import Attempt, enter, lending_set, verdicts
from tests.synthesis.teacher.conftest import NewTeacher, new_teacher
from tests.synthesis.teacher.lending import BRANCH, SCRIPT, SIZES, TOOLS
from tests.synthesis.teacher.scripted_endpoint import ScriptedEndpoint, serving
from tutti import storage
from tutti.tasks.synthesis.domains import DomainTask, read_domain_folder, write_tau2_folder
from tutti.tasks.synthesis.gating import GATES
from tutti.tasks.synthesis.gating.gate import Gate, GateContext
from tutti.tasks.synthesis.making import band
from tutti.tasks.synthesis.making.band import BandRequest, BandSource
from tutti.tasks.synthesis.making.by_program import DomainRequest, DomainSource
from tutti.tasks.synthesis.programs import PROGRAMS
from tutti.tasks.synthesis.teacher import Chain, TeacherFailed, TeacherRequest, chain
from tutti.tasks.task_sets import PASSED, Verdict, make_set

__all__ = ["new_teacher"]
ROWS = "select task_id, status, reason, difficulty from tasks where task_set_id = $id"


class GateOut:
    """Gate whose verdicts are ignored; its side effects for later gates are kept."""

    def __init__(self, gate: Gate) -> None:
        self._gate, self.name = gate, gate.name

    async def judge(self, tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
        await self._gate.judge(tasks, context)
        return [PASSED] * len(tasks)


@pytest.fixture
def catalog(tmp_path: Path, new_catalog: NewCatalog) -> Iterator[storage.Catalog]:
    with new_catalog(storage.Home(tmp_path / "store")) as opened:
        yield opened


def made(catalog: storage.Catalog, size: int) -> tuple[str, dict[str, tuple[str, str]]]:
    """Return a set, and (status, reason) of its tasks with the defect."""
    request = DomainRequest(domain="lending", size=size, instance_tasks=size)
    task_set = made_set(DomainSource(request), catalog)
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
    """The reference's drafts were never converted. Each task that passed is valid in tau2's format,
    and its golden actions lead to our state; an invalid record fails there, too."""
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
                for table, keyed in expected[one.id].world.changed.items():
                    for key, fields in keyed.items():
                        getattr(tools.db, table)[key] = type(getattr(tools.db, table)[key])(
                            **{**domain.records[table][key], **fields}
                        )
                for action in one.evaluation_criteria["actions"]:
                    tools.use_tool(action["name"], **action["arguments"])
                assert tools.get_db_hash() == expected[one.id].world.expected
        return len(expected)

    assert converted(made(catalog, 20)[0], tmp_path / "passed") == 20
    take_out(("records",), monkeypatch)
    with pytest.raises(ValueError, match="title"):
        converted(made(catalog, 21)[0], tmp_path / "kept")


async def test_what_no_model_solves_in_eight_attempts(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PROGRAMS, "lending", Lending())
    task_set, tasks = await lending_set(catalog, 4)
    enter(
        catalog,
        [Attempt(t, "", correct=n == 7 and t is tasks[0]) for t in tasks for n in range(8)],
    )
    request = BandRequest(task_set=task_set, low=0.01, high=1.0, k=8)
    found = verdicts(catalog, await make_set(BandSource(request, catalog), catalog))
    passed = [found[task.task_id]["passed"] for task in tasks]
    assert passed == [True, False, False, False]
    why = "pass@8 is 0.00 (0 of 8 attempts solved it), not 0.01 to 1"
    assert {row["reason"] for row in found.values() if not row["passed"]} == {why}
    monkeypatch.setattr(band, "judged", lambda rate, request: PASSED)
    assert all(
        row["passed"]
        for row in verdicts(catalog, await make_set(BandSource(request, catalog), catalog)).values()
    )


async def test_a_teachers_code_that_was_never_run(
    new_teacher: NewTeacher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool's code does not work; without the check it is in the domain. `test_judging` tests a
    model's check and that its "no" is used."""
    broken = {"code": BRANCH.replace('each["card"]', 'each["karte"]'), "tools": TOOLS}
    script = {**SCRIPT, "toolkit": [broken]}
    request = TeacherRequest(topic="the desk of a small library", **SIZES)
    async with serving(ScriptedEndpoint(script)) as endpoint:
        async with new_teacher(endpoint) as teacher:
            with pytest.raises(TeacherFailed, match=r"toolkit: check: list_loans.*KeyError"):
                await Chain(request, teacher).make_domain()

    async def unread(*_: object) -> str:
        return ""

    monkeypatch.setattr(chain, "toolkit_reason", unread)
    async with serving(ScriptedEndpoint(script)) as endpoint:
        other = request.model_copy(update={"seed": 1})
        async with new_teacher(endpoint) as teacher:
            domain = await Chain(other, teacher).make_domain()
    assert 'each["karte"]' in domain.toolkit
