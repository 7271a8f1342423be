"""Tests of leases on both databases: one holder at a time, and none commits after another took
over."""

import json
import os
import subprocess
import sys
import threading
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from tutti import storage
from tutti.storage import catalog as cat
from tutti.storage.catalog import leasing as leases
from tutti.storage.catalog.store import database_now

OTHER_HOST = json.dumps({"host": "elsewhere/1234", "pid": os.getpid(), "start_ticks": 1})


def entered(catalog: storage.Catalog) -> list[str]:
    """Return the attempts visible to readers."""
    rows = storage.query("select attempt_id from attempts order by all", catalog.home)
    return [row["attempt_id"] for row in rows]


def of_host(catalog: storage.Catalog, name: str, holder: str, left_s: float) -> None:
    """Make `holder` the holder of `name` for `left_s` more seconds."""
    with catalog.transaction() as connection:
        until = cat.database_now(connection) + timedelta(seconds=left_s)
        change = sa.update(cat.leases).where(cat.leases.c.name == name)
        connection.execute(change.values(holder=holder, expires_at=until))


def test_a_lease_is_held_by_one(catalog: storage.Catalog) -> None:
    """The error names the holder; other names are free, and so is this one after release."""
    with storage.held(catalog, "sweep:1"):
        with pytest.raises(storage.StoreBusy, match=f"sweep:1 is held by process {os.getpid()} on"):
            leases.acquire(catalog, "sweep:1")
        with storage.held(catalog, "sweep:2"):
            pass
    with storage.held(catalog, "sweep:1"):
        pass


def test_tokens_only_grow(catalog: storage.Catalog) -> None:
    """The next holder's token is higher, however a lease ended."""
    tokens = []
    for _ in range(3):
        lease = leases.acquire(catalog, "sweep:1")
        tokens.append(lease.token)
        leases.release(catalog, lease)
    assert tokens == [1, 2, 3]


def test_a_worker_thought_dead_cannot_commit_late(catalog: storage.Catalog) -> None:
    """The late worker's rows stay invisible, and its files are removed; the new holder's are
    entered."""
    old = leases.acquire(catalog, "sweep:1")
    of_host(catalog, "sweep:1", OTHER_HOST, left_s=-1)
    new = leases.acquire(catalog, "sweep:1")
    storage.commit(catalog, {"attempts": [{"attempt_id": "new"}]}, lease=new)
    with pytest.raises(storage.LeaseLost, match="another process took it over"):
        storage.commit(catalog, {"attempts": [{"attempt_id": "late"}]}, lease=old)
    with pytest.raises(storage.LeaseLost):
        leases.renew(catalog, old)
    leases.release(catalog, old)  # takes nothing from the new holder
    storage.commit(catalog, {"attempts": [{"attempt_id": "newer"}]}, lease=new)
    assert entered(catalog) == ["new", "newer"]
    assert len(list(catalog.home.tables.rglob("*.parquet*"))) == 2


def test_a_lease_that_ran_out_and_nobody_took_is_still_good(catalog: storage.Catalog) -> None:
    """A slow worker whose expired lease was not taken loses nothing."""
    lease = leases.acquire(catalog, "sweep:1", seconds=0)
    storage.commit(catalog, {"attempts": [{"attempt_id": "a"}]}, lease=lease)
    assert entered(catalog) == ["a"]


@pytest.mark.parametrize(("left_s", "free"), [(30.0, False), (-0.001, True)])
def test_another_hosts_lease_runs_out_by_time_only(
    catalog: storage.Catalog, left_s: float, free: bool
) -> None:
    """The state of processes on another host is unknown, whatever their ids."""
    leases.release(catalog, leases.acquire(catalog, "sweep:1"))
    of_host(catalog, "sweep:1", OTHER_HOST, left_s)
    if free:
        assert leases.acquire(catalog, "sweep:1").token == 2
    else:
        with pytest.raises(storage.StoreBusy, match=r"on elsewhere; .* runs out in (29|30) s"):
            leases.acquire(catalog, "sweep:1")


@pytest.mark.parametrize(("left_s", "holds"), [(30.0, True), (-0.001, False)])
def test_a_host_that_does_not_renew_holds_nothing(
    catalog: storage.Catalog, left_s: float, holds: bool
) -> None:
    """A query for the holder and a claim of the lease give the same result."""
    leases.release(catalog, leases.acquire(catalog, "sweep:1"))
    of_host(catalog, "sweep:1", OTHER_HOST, left_s)
    holder = leases.holder_of(catalog, "sweep:1")
    assert (holder is not None) is holds
    assert holder is None or (holder.host, holder.here, holder.is_late) == (
        "elsewhere",
        False,
        False,
    )


def test_a_live_process_of_this_host_holds_a_late_lease_until_it_is_taken(
    catalog: storage.Catalog,
) -> None:
    """The process was stopped for a while and continues: nothing of it is lost, and it can be
    cancelled."""
    leases.acquire(catalog, "sweep:1", seconds=0)
    holder = leases.holder_of(catalog, "sweep:1")
    assert holder is not None and (holder.pid, holder.here, holder.is_late) == (
        os.getpid(),
        True,
        True,
    )


def test_the_lease_of_a_killed_process_of_this_host_is_free_at_once(
    catalog: storage.Catalog, worker_environment: dict[str, Any]
) -> None:
    """After kill -9, the same command does not wait for the lease to expire."""
    code = (
        "import sys, time; from tutti import storage\n"
        "from tutti.storage.catalog import leasing as leases\n"
        "from pathlib import Path\n"
        "c = storage.open_catalog(storage.Home(Path(sys.argv[1])))\n"
        "leases.acquire(c, 'sweep:1'); print('held', flush=True); time.sleep(100)"
    )
    command = [sys.executable, "-c", code, str(catalog.home.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=worker_environment) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(storage.StoreBusy, match=f"by process {other.pid} "):
            leases.acquire(catalog, "sweep:1")
        other.kill()
        other.wait()
    assert leases.acquire(catalog, "sweep:1").token == 2


def test_a_lease_whose_answer_was_lost_does_not_keep_its_own_process_out(
    catalog: storage.Catalog,
) -> None:
    """The lease was taken but the response was lost; no other process can hold it under this
    process's name."""
    lease = leases.acquire(catalog, "sweep:1")
    leases._OURS.discard((catalog.home, lease))
    assert leases.acquire(catalog, "sweep:1").token == 2
    with pytest.raises(storage.StoreBusy):
        leases.acquire(catalog, "sweep:1")


def test_a_held_lease_is_renewed(catalog: storage.Catalog) -> None:
    """Work may take longer than a lease lasts."""
    with storage.held(catalog, "sweep:1", seconds=0.4):
        (first,) = catalog.rows(sa.select(cat.leases.c.expires_at))
        then = first
        while then == first:  # a lease that is not renewed ends the test by its time limit
            threading.Event().wait(0.01)
            (then,) = catalog.rows(sa.select(cat.leases.c.expires_at))
        assert then["expires_at"] > first["expires_at"]


def test_a_clock_that_jumps_back_lets_nobody_commit_twice(
    catalog: storage.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease then lasts too long or too short, but the token decides."""
    real = database_now
    old = leases.acquire(catalog, "sweep:1", seconds=5)
    of_host(catalog, "sweep:1", OTHER_HOST, left_s=5)
    monkeypatch.setattr(leases, "database_now", lambda c: real(c) + timedelta(hours=1))
    new = leases.acquire(catalog, "sweep:1")  # its clock ran ahead, or ours was set back
    monkeypatch.setattr(leases, "database_now", real)
    with pytest.raises(storage.LeaseLost):
        storage.commit(catalog, {"attempts": [{"attempt_id": "late"}]}, lease=old)
    storage.commit(catalog, {"attempts": [{"attempt_id": "new"}]}, lease=new)
    assert entered(catalog) == ["new"]


def test_of_many_that_ask_at_once_one_gets_it(catalog: storage.Catalog) -> None:
    """The threads have one catalog each, as processes do."""
    got: list[int | None] = []
    ready = threading.Barrier(8)

    def ask() -> None:
        with storage.open_catalog(catalog.home) as mine:
            ready.wait()
            try:
                got.append(leases.acquire(mine, "sweep:1").token)
            except storage.StoreBusy:
                got.append(None)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(token for token in got if token) == [1]
