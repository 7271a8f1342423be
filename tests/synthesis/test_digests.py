"""Tests that generated sets are identical byte for byte and row by row while their generators are
rewritten.

After a change that is meant to change sets, update the digests: ``TUTTI_DIGESTS=write pytest
tests/synthesis/test_digests.py``.
"""

import asyncio
import hashlib
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.synthesis.documents.corpora import index_of, write_files
from tests.synthesis.measured import enter_attempts, lending_set, tasks_of
from tests.synthesis.test_generate import DOCUMENTS, REQUEST, searching
from tutti import storage
from tutti.tasks.synthesis import (
    BandRequest,
    BandSource,
    DocumentsRequest,
    DomainRequest,
    DomainSource,
    StdlibSource,
)
from tutti.tasks.synthesis.documents.judging import PassageSource
from tutti.tasks.synthesis.preferences import PreferenceRequest, PreferenceSource
from tutti.tasks.synthesis.programs import PROGRAMS
from tutti.tasks.synthesis.skills import LabelRequest, LabelSource
from tutti.tasks.task_sets import make_set

STORED = Path(__file__).with_name("digests.json")
ROWS = "select * exclude (gated_at) from tasks where task_set_id = $id order by task_id, status"
VERDICTS = """
select * exclude (gated_at) from gate_verdicts where task_set_id = $id
order by task_id, position, passed
"""
SIZE = 12


Make = Callable[[storage.Catalog, Path], Awaitable[str]]


def _domain(name: str, seed: int, workers: int = 1) -> Make:
    async def make(catalog: storage.Catalog, folder: Path) -> str:
        asked = {"domain": name, "size": SIZE, "seed": seed, "workers": workers}
        request = DomainRequest.model_validate(asked | {"instance_tasks": SIZE // 2})
        return await make_set(DomainSource(request), catalog)

    return make


async def _stdlib(catalog: storage.Catalog, folder: Path) -> str:
    async with searching() as url:
        return await make_set(StdlibSource(DOCUMENTS, REQUEST, "index:1", url), catalog)


async def _documents(catalog: storage.Catalog, folder: Path) -> str:
    index = await asyncio.to_thread(index_of, write_files(folder / "files"), catalog)
    request = DocumentsRequest(index=str(index), size=SIZE, seed=3)
    return await make_set(PassageSource(request, catalog), catalog)


async def _preferences(catalog: storage.Catalog, folder: Path) -> str:
    request = PreferenceRequest(task_set=await lending_set(catalog, SIZE))
    return await make_set(PreferenceSource(request, catalog), catalog)


async def _labels(catalog: storage.Catalog, folder: Path) -> str:
    request = LabelRequest(task_set=await lending_set(catalog, SIZE), skills=("split",))
    return await make_set(LabelSource(request, catalog), catalog)


async def _band(catalog: storage.Catalog, folder: Path) -> str:
    whole = await lending_set(catalog, SIZE)
    tasks = tasks_of(catalog, whole)
    enter_attempts(catalog, tasks, {n: (True, n % 2 == 0) for n in range(SIZE)})
    request = BandRequest(task_set=whole, low=0.0, high=0.5, k=1)
    return await make_set(BandSource(request, catalog), catalog)


MAKERS: dict[str, Make] = {
    **{f"{name}/{seed}": _domain(name, seed) for name in PROGRAMS for seed in (0, 1)},
    "retail/0, 2 workers": _domain("retail", 0, 2),
    "stdlib": _stdlib,
    "documents": _documents,
    "preferences": _preferences,
    "labels": _labels,
    "band": _band,
}


@pytest.mark.parametrize("name", MAKERS)
async def test_a_set_is_what_it_was(name: str, catalog: storage.Catalog, tmp_path: Path) -> None:
    made = await MAKERS[name](catalog, tmp_path)
    found = [made, _digest(made, catalog)]
    if os.environ.get("TUTTI_DIGESTS") == "write":
        known = json.loads(STORED.read_text()) if STORED.is_file() else {}
        STORED.write_text(json.dumps(known | {name: found}, indent=1, sort_keys=True) + "\n")
    assert json.loads(STORED.read_text())[name] == found


def test_another_number_of_workers_makes_the_same_set() -> None:
    known = json.loads(STORED.read_text())
    assert known["retail/0"] == known["retail/0, 2 workers"]


def _digest(made: str, catalog: storage.Catalog) -> str:
    """Return the digest of the set's files and of its rows without their times."""
    found, folder = hashlib.sha256(), catalog.home.artifact_folder(made)
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        found.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    for sql in (ROWS, VERDICTS):
        rows = storage.query(sql, catalog.home, {"id": made})
        found.update(json.dumps(rows, sort_keys=True, default=str).encode())
    return found.hexdigest()[:16]
