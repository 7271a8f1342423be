"""Tests of many kill -9: nothing finished is lost or duplicated, and every read is consistent.

Seeds are drawn and printed; ``TUTTI_KILL_SEED=… pytest tests/storage/test_kills.py -k …`` replays
one: the same processes, with kills at the same steps (the timing in between varies).
"""

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.storage.kill_history import History, Nursery
from tests.storage.kill_scenarios import SCENARIOS, place_for
from tutti import storage
from tutti.tasks.platform.project import PROJECT

FEW = {
    "one writer": 2,
    "writers and compactor": 4,
    "no grace": 1,
    "contended lease": 1,
    "disk full": 3,
    "read only": 1,
    "no answer": 2,
}
MANY = {
    "one writer": 30,
    "writers and compactor": 50,
    "no grace": 20,
    "contended lease": 12,
    "disk full": 20,
    "read only": 14,
    "no answer": 6,
}
ON_POSTGRESQL = {
    "one writer": 14,
    "writers and compactor": 24,
    "no grace": 6,
    "contended lease": 6,
    "read only": 6,
    "no answer": 9,
}


# Every wait of a history has a bound of its own and says what it waited for. On a machine that
# gives a twentieth of a core all the work takes more than the usual two minutes.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """Yield the process from which the children of these tests are forked."""
    made = Nursery({**os.environ, "PYTHONPATH": str(PROJECT)})
    yield made
    made.close()


def play(scenario: str, kills: int, nursery: Nursery, folder: Path) -> None:
    """Run one history with a new seed, or with the one to replay."""
    seed = int(os.environ.get("TUTTI_KILL_SEED") or int.from_bytes(os.urandom(4)))
    test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
    replay = f"TUTTI_KILL_SEED={seed} pytest '{test}'"
    print(f"\n{replay}")
    with place_for(scenario, folder / "disk") as disk:
        moods = folder / "moods"
        history = History(storage.Home(disk / "store"), nursery, Random(seed), moods)
        try:
            SCENARIOS[scenario](history, kills)
            history.finish()
        except BaseException as error:
            error.add_note(f"replay: {replay}\n{history}")
            raise
        finally:
            history.end()
    counts = f"{history.reads} reads, {len(history.seen)} attempts, {history.refused} refused"
    print(f"{scenario}: {counts}, {history.kills.total()} kills:")
    for kind, count in sorted(history.kills.items()):
        print(f"  {count:3} {kind}")
    assert history.kills.total() >= kills


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("scenario", FEW)
def test_a_few_kills(scenario: str, database: str, nursery: Nursery, tmp_path: Path) -> None:
    """Some kills of each kind run with every run of the tests."""
    play(scenario, FEW[scenario], nursery, tmp_path)


@pytest.mark.e2e
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("scenario", MANY)
def test_many_kills(scenario: str, database: str, nursery: Nursery, tmp_path: Path) -> None:
    """The kills cover every step of the protocol in every kind of process."""
    play(scenario, MANY[scenario], nursery, tmp_path)


@pytest.mark.e2e
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@pytest.mark.parametrize("scenario", ON_POSTGRESQL)
def test_many_kills_on_postgresql(
    scenario: str, database: str, nursery: Nursery, tmp_path: Path
) -> None:
    """The kills are the same with the catalog on a server."""
    play(scenario, ON_POSTGRESQL[scenario], nursery, tmp_path)
