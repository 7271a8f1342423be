"""Tests that a set is generated from instances: gated, stored with every verdict, and reproducible
for the same request."""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.conftest import NewCatalog
from tests.synthesis.lending import Lending
from tests.synthesis.made import made_set
from tutti import storage
from tutti.tasks.benchmarks import Source
from tutti.tasks.synthesis.domains import domain_benchmark, read_domain_folder
from tutti.tasks.synthesis.gating import GATES
from tutti.tasks.synthesis.making import by_program
from tutti.tasks.synthesis.making.by_program import DomainRequest, DomainSource
from tutti.tasks.synthesis.programs import PROGRAMS
from tutti.tasks.task_sets import NothingMade
from tutti.tasks.task_sets import make as make_module

GROUPS = "select status, count(*) as n from tasks where task_set_id = $id group by all order by all"


@pytest.fixture(autouse=True)
def lending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROGRAMS, "lending", Lending())


@pytest.fixture
def catalog(tmp_path: Path, new_catalog: NewCatalog) -> Iterator[storage.Catalog]:
    with new_catalog(storage.Home(tmp_path / "store")) as opened:
        yield opened


def asked(**fields: object) -> DomainRequest:
    known: dict[str, object] = {"domain": "lending", "size": 30, "instance_tasks": 20}
    return DomainRequest.model_validate(known | fields)


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_every_candidate_has_a_row_and_every_gate_a_verdict(catalog: storage.Catalog) -> None:
    """There are two databases: 20 tasks use the first, the other 10 the second."""
    made = made_set(DomainSource(asked()), catalog)
    entry = catalog.artifact(made)
    assert entry is not None and entry["detail"]["accepted"] == 30
    assert entry["detail"]["candidates"] == 30 and not entry["detail"]["dropped"]
    rows = storage.query(GROUPS, catalog.home, {"id": made})
    assert rows == [{"status": "accepted", "n": 30}]
    said = storage.query("select gate, count(*) as n from gate_verdicts group by all", catalog.home)
    assert {row["gate"]: row["n"] for row in said} == dict.fromkeys(GATES, 30)
    first, second = (read_domain_folder(entry["path"] / f"lending-000{n}") for n in (0, 1))
    assert first[0].records != second[0].records
    tasks = [*first[1], *second[1]]
    assert len(tasks) == 30 and all(len(task.world.expected) == 64 for task in tasks)


def test_a_wrong_candidate_is_dropped_with_its_gate_and_reason(catalog: storage.Catalog) -> None:
    """Every tenth candidate names another number of days than its golden calls give."""
    made = made_set(DomainSource(asked(knobs={"wrong": 1})), catalog)
    rows = storage.query(
        "select reason from tasks where status = 'rejected' and task_set_id = $id",
        catalog.home,
        {"id": made},
    )
    assert rows and all(row["reason"].startswith("suffices: days") for row in rows)
    entry = catalog.artifact(made)
    assert entry is not None and entry["detail"]["dropped"] == {"suffices": len(rows)}
    last = storage.query("select gate, reason from gate_verdicts where not passed", catalog.home)
    assert len(last) == len(rows) and {row["gate"] for row in last} == {"suffices"}


def test_the_same_request_is_the_same_set_and_another_seed_is_not(
    catalog: storage.Catalog, tmp_path: Path, new_catalog: NewCatalog
) -> None:
    made = made_set(DomainSource(asked()), catalog)
    assert made_set(DomainSource(asked(workers=2)), catalog) == made, "found, whatever makes it"
    other = made_set(DomainSource(asked(seed=1)), catalog)
    assert other != made
    with new_catalog(storage.Home(tmp_path / "elsewhere")) as another:
        assert made_set(DomainSource(asked()), another) == made
        one, two = (each.home.artifact_folder(made) for each in (catalog, another))
        assert files_of(one) == files_of(two)


def test_a_run_that_was_killed_takes_the_instances_that_are_done(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is killed after the first instance, and once more before the artifact is entered."""
    own, judged = by_program.judge, []

    async def counted(*arguments: object) -> object:
        judged.append(1)
        if len(judged) == 2:
            raise KeyboardInterrupt
        return await own(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(by_program, "judge", counted)
    with pytest.raises(KeyboardInterrupt):
        made_set(DomainSource(asked()), catalog)
    commit = storage.commit

    def committed(*arguments: object) -> None:
        commit(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(make_module, "commit", committed)
    with pytest.raises(KeyboardInterrupt):
        made_set(DomainSource(asked()), catalog)
    assert len(judged) == 3, "the first instance was not judged again"
    monkeypatch.undo()
    monkeypatch.setitem(PROGRAMS, "lending", Lending())
    made = made_set(DomainSource(asked()), catalog)
    assert storage.query(GROUPS, catalog.home, {"id": made}) == [{"status": "accepted", "n": 30}]


def test_rows_are_committed_some_at_once_and_once_only(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is killed between two commits, and after the last one."""
    monkeypatch.setattr(make_module, "ROWS_AT_ONCE", 20)
    commit, done = storage.commit, []

    def committed(*arguments: object) -> None:
        commit(*arguments)  # type: ignore[arg-type]
        done.append(arguments)
        if len(done) in (1, 3):
            raise KeyboardInterrupt

    monkeypatch.setattr(make_module, "commit", committed)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            made_set(DomainSource(asked(size=50)), catalog)
    made = made_set(DomainSource(asked(size=50)), catalog)
    assert len(done) == 3, "20, 20 and 10 tasks"
    assert storage.query(GROUPS, catalog.home, {"id": made}) == [{"status": "accepted", "n": 50}]
    said = storage.query("select gate, count(*) as n from gate_verdicts group by all", catalog.home)
    assert {row["gate"]: row["n"] for row in said} == dict.fromkeys(GATES, 50)


@pytest.mark.parametrize(
    ("size", "each", "wanted"),
    [
        (500, 250, [250, 250, 250]),
        (510, 250, [250, 250, 10]),
        (30, 20, [20, 10, 20]),
        (5, 250, [5, 5]),
    ],
)
def test_an_instance_gives_what_is_still_wanted(size: int, each: int, wanted: list[int]) -> None:
    """Instances after the last planned one compensate for others, each with a full number of
    tasks."""
    request = asked(size=size, instance_tasks=each)
    assert [request.wanted(number) for number in range(len(wanted))] == wanted
    assert request.databases == -(-size // each)


@pytest.mark.parametrize("workers", [2, 5])
async def test_processes_begin_no_database_that_is_not_needed(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """70 tasks at 20 each need four databases; a fifth is started only if those gave too few."""
    begun: list[int] = []

    class Pool:
        def submit(self, make: object, request: object, number: int, work: object) -> Future[None]:
            begun.append(number)
            done: Future[None] = Future()
            done.set_result(None)
            return done

    monkeypatch.setattr(by_program, "_pool", lambda *_: nullcontext(Pool()))
    coming = by_program.instances(asked(size=70, workers=workers), tmp_path, ())
    folders = [by_program.instance_folder(tmp_path, number) for number in range(6)]
    assert [await anext(coming) for _ in range(4)] == folders[:4] and begun == [0, 1, 2, 3]
    assert await anext(coming) == folders[4] and begun == [0, 1, 2, 3, 4]
    assert await anext(coming) == folders[5]
    assert begun == [0, 1, 2, 3, 4, 5, 6], "several, if many gave too few"
    await coming.aclose()


def test_a_set_over_two_databases_is_one_benchmark(catalog: storage.Catalog) -> None:
    """Each item's world has the database of its task."""
    made = made_set(DomainSource(asked()), catalog)
    folder = catalog.home.artifact_folder(made)
    splits = {}
    for split in ("train", "validation", "test"):
        benchmark = domain_benchmark("lending", folder, split, solo=True)
        items = splits[split] = list(benchmark.load(Source(split=split)))
        assert benchmark.world is not None
        for item in items:
            outcome = benchmark.world(item, None).outcome()
            assert outcome is not None and outcome["db"] != item.target["state"]["db"]
    assert sum(map(len, splits.values())) == 30 and splits["test"]
    every = [item for items in splits.values() for item in items]
    assert len({item.target["domain"] for item in every}) == 2


def test_too_few_candidates_are_said(catalog: storage.Catalog) -> None:
    """The domain's databases have two members each, and many tasks are requested."""
    with pytest.raises(NothingMade, match=r"lending: \d+ of 200 tasks .* databases; dropped by"):
        made_set(DomainSource(asked(size=200, instance_tasks=200, knobs={"members": 2})), catalog)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"domain": "nowhere"}, "domain: no program 'nowhere'; known: "),
        ({"knobs": {"height": 2}}, "knobs.height: lending has members, wrong"),
        ({"knobs": {"members": 999}}, "knobs.members: 999 is not in 2 to 180"),
        ({"size": 0}, "size"),
    ],
)
def test_a_bad_request_names_the_field(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        asked(**fields)
