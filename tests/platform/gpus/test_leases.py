"""Tests of GPU leases: one holder per GPU, all GPUs of a claim or none, and refusals that list the
GPUs."""

import asyncio
import json
import os
import subprocess
import threading
import time
from datetime import timedelta

import pytest
import sqlalchemy as sa

from tests.platform.gpus.conftest import MakeGpus
from tutti import storage
from tutti.storage import catalog as cat
from tutti.tasks.platform.gpus import (
    GpuClaim,
    GpuLost,
    GpusBusy,
    NoSuchGpu,
    lease_gpus,
    lease_gpus_async,
    list_gpus,
    read_inventory,
)
from tutti.tasks.platform.gpus.leases import take_lock
from tutti.tasks.serving.processes import Child


def of(wanted: int | tuple[int | str, ...] | None, wait_s: float = 0.0) -> GpuClaim:
    return GpuClaim(wanted, "run:1", "training", wait_s)


def states(catalog: storage.Catalog) -> list[str]:
    return [each.state for each in list_gpus(catalog, read_inventory(catalog.home))]


@pytest.mark.parametrize(
    ("wanted", "indices", "visible"),
    [
        (None, [0], "GPU-0000-aa"),
        (2, [0, 1], "GPU-0000-aa,GPU-1111-aa"),
        ((2,), [2], "GPU-2222-aa"),
        (("GPU-1111-aa", 0), [0, 1], "GPU-0000-aa,GPU-1111-aa"),
        (("2",), [2], "GPU-2222-aa"),
        (0, [], ""),
    ],
)
def test_the_cards_that_are_asked_for(
    catalog: storage.Catalog,
    listed: MakeGpus,
    wanted: int | tuple[int | str, ...] | None,
    indices: list[int],
    visible: str,
) -> None:
    """The default is one GPU; GPUs are released at the end of the block."""
    listed(3)
    with lease_gpus(catalog, of(wanted)) as lease:
        assert [gpu.index for gpu in lease.gpus] == indices
        assert lease.environment["CUDA_VISIBLE_DEVICES"] == visible
        assert states(catalog).count("held") == len(indices)
    assert states(catalog) == ["free"] * 4


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (4, r"gpus: 4 GPUs asked for; this machine has 3, by .*gpus.yaml: 0 \(GPU-0000-aa\), 1"),
        ((5,), r"gpus: no gpu 5; this machine has 3"),
        (("GPU-elsewhere",), r"gpus: no gpu 'GPU-elsewhere'"),
        (("GPU-",), r"'GPU-' begins the uuid of 3 GPUs"),
        ((1, "GPU-1"), r"gpu 1 is named twice"),
        (-1, r"gpus: -1 is not a number of GPUs"),
    ],
)
def test_what_there_is_not_is_refused_at_once(
    catalog: storage.Catalog,
    listed: MakeGpus,
    wanted: int | tuple[int | str, ...],
    said: str,
) -> None:
    listed(3)
    with pytest.raises(NoSuchGpu, match=said), lease_gpus(catalog, of(wanted, wait_s=60)):
        pass


def test_a_machine_without_cards(catalog: storage.Catalog, listed: MakeGpus) -> None:
    """By default the job runs on the CPU; GPUs that tutti does not list stay visible to it."""
    listed(0)
    with lease_gpus(catalog, of(None)) as lease:
        assert lease.gpus == () and lease.environment == {}
    with pytest.raises(NoSuchGpu, match=r"1 GPU asked for; this machine has none \(.* lists no"):
        with lease_gpus(catalog, of(1)):
            pass


def test_who_holds_what_is_told_while_waiting_and_at_the_end(
    catalog: storage.Catalog, listed: MakeGpus
) -> None:
    listed(2)
    told: list[str] = []
    with lease_gpus(catalog, of(1)):
        with pytest.raises(GpusBusy, match=r"waited 0 s for 2 GPUs: gpu 0 held by run:1 .*later"):
            with lease_gpus(catalog, of(2, wait_s=0.3), told.append):
                pass
        assert states(catalog)[0] == "held" and states(catalog)[1] == "free"
    assert len(told) == 1, "once, for nothing changed"
    assert told[0].startswith("waiting for 2 GPUs: gpu 0 held by run:1 (training) since 20")
    assert told[0].endswith(" UTC, gpu 1 free")


def test_it_gets_the_card_when_the_holder_is_done(
    catalog: storage.Catalog, listed: MakeGpus
) -> None:
    listed(1)
    with lease_gpus(catalog, of(1)):
        waiter: list[int] = []

        def wait() -> None:
            with storage.open_catalog(catalog.home) as mine, lease_gpus(mine, of(1, wait_s=20)):
                waiter.append(1)

        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(0.3)
        assert not waiter
    thread.join(60)
    assert waiter


def test_two_claims_for_both_cards_do_not_wait_for_each_other(
    catalog: storage.Catalog, listed: MakeGpus
) -> None:
    """The claims name the GPUs in different orders; neither holds one while it waits for the
    other."""
    listed(2)
    done: list[int] = []

    def work(names: tuple[int | str, ...]) -> None:
        with storage.open_catalog(catalog.home) as mine:
            for _ in range(5):
                with lease_gpus(mine, of(names, wait_s=30)):
                    done.append(1)

    orders: list[tuple[int | str, ...]] = [(0, 1), (1, 0)]
    threads = [threading.Thread(target=work, args=(names,)) for names in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
    assert len(done) == 10


def test_a_child_sees_its_cards_and_keeps_their_locks(
    catalog: storage.Catalog, listed: MakeGpus
) -> None:
    """This also holds if the holder's descriptor is closed: the GPU is in use until the child
    ends."""
    listed(2)
    with lease_gpus(catalog, of((1,))) as lease:
        with Child("user", ["sh", "-c", "env; sleep 1000"], {}, catalog, lease) as child:
            deadline = time.monotonic() + 60
            while "CUDA_VISIBLE" not in child.log_tail(999) and time.monotonic() < deadline:
                time.sleep(0.02)
            said = child.log_tail(999).splitlines()
            assert "CUDA_VISIBLE_DEVICES=GPU-1111-aa" in said
            assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in said
            assert not [line for line in said if line.startswith("TUTTI_SILENCE_S")]
            fd = os.open("/dev/null", os.O_RDONLY)
            os.dup2(fd, lease.locks[0])  # closes the holder's; the block closes this one
            os.close(fd)
            assert take_lock("gpu GPU-1111-aa") is None
    assert states(catalog) == ["free"] * 3


def test_a_card_whose_process_outlives_its_holder_is_not_free(
    catalog: storage.Catalog, listed: MakeGpus
) -> None:
    listed(1)
    with lease_gpus(catalog, of(1)) as lease:
        user = subprocess.Popen(["sleep", "1000"], pass_fds=lease.locks)
    try:
        assert states(catalog)[0] == "in_use"
        with pytest.raises(GpusBusy, match="gpu 0 in use by a process that no lease names"):
            with lease_gpus(catalog, of(1)):
                pass
    finally:
        user.kill()
        user.wait()
    with lease_gpus(catalog, of(1)):
        pass


def test_a_card_with_a_foreign_process_is_not_free(
    catalog: storage.Catalog, listed: MakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that tutti did not start uses its memory. The other GPU is leased, and a claim for
    both is refused with that process's name. When the process ends or sharing is allowed, the GPU
    is free."""
    listed(2)
    computing = {"GPU-0000-aa": [4711]}
    seen = "tutti.tasks.platform.gpus.leases.processes_of_nvml"
    monkeypatch.setattr(seen, lambda uuid: computing.get(uuid, []))
    assert states(catalog)[:2] == ["foreign", "free"]
    with lease_gpus(catalog, of(1)) as lease:
        assert [gpu.index for gpu in lease.gpus] == [1]
    said = r"gpu 0 in use by process 4711, which tutti did not start \(end it, or set TUTTI_SHARE"
    with pytest.raises(GpusBusy, match=said), lease_gpus(catalog, of(2)):
        pass
    monkeypatch.setenv("TUTTI_SHARE_GPUS", "1")
    with lease_gpus(catalog, of(2)):
        pass
    monkeypatch.delenv("TUTTI_SHARE_GPUS")
    computing.clear()
    with lease_gpus(catalog, of(2)):
        pass
    assert states(catalog)[:2] == ["free", "free"]


def take_over(catalog: storage.Catalog) -> None:
    """Take the lease as another host does after it has expired."""
    with catalog.transaction() as connection:
        change = sa.update(cat.leases).where(cat.leases.c.name.startswith("gpu "))
        connection.execute(change.values(token=cat.leases.c.token + 1))


def test_a_holder_that_does_not_renew_is_told_while_it_lives(
    catalog: storage.Catalog, listed: MakeGpus
) -> None:
    """A GPU whose host is gone is free for the next claim."""
    listed(1)
    of_gpus = sa.update(cat.leases).where(cat.leases.c.name.startswith("gpu "))
    with lease_gpus(catalog, of(1)):
        with catalog.transaction() as connection:
            past = cat.database_now(connection) - timedelta(seconds=1)
            connection.execute(of_gpus.values(expires_at=past))
        assert states(catalog)[:1] == ["expired"]
    gone = json.dumps({"host": "elsewhere/1234", "pid": 1, "start_ticks": 1})
    with catalog.transaction() as connection:
        connection.execute(of_gpus.values(holder=gone, expires_at=past))
    assert states(catalog)[:1] == ["free"]


def test_a_lost_lease_ends_the_child_and_fences_commits(
    catalog: storage.Catalog, listed: MakeGpus
) -> None:
    listed(2)
    claim = GpuClaim(2, "run:1", "", 0.0, lease_s=1.0)
    with lease_gpus(catalog, claim) as lease:
        with catalog.transaction() as connection:
            lease.fence(connection)
        with Child("user", ["sleep", "1000"], {}, catalog, lease) as child:
            take_over(catalog)
            with pytest.raises(GpuLost), catalog.transaction() as connection:
                lease.fence(connection)
            deadline = time.monotonic() + 60
            with pytest.raises(GpuLost, match=r"gpu [01] was taken over by another run"):
                while child.poll() is None:
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
        late: list[str] = []
        lease.watch(renewed=lambda: None, lost=lambda: late.append("told"))
        assert late == ["told"]


def test_a_child_whose_leases_are_not_renewed_is_ended(
    catalog: storage.Catalog, listed: MakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the catalog is unreachable, others may take the GPU when the lease has expired."""
    listed(1)
    claim = GpuClaim(1, "run:1", "", 0.0, lease_s=3.0)

    def fail(*_: object) -> None:
        raise storage.StoreError("gone")

    with lease_gpus(catalog, claim) as lease:
        with Child("user", ["sleep", "1000"], {}, catalog, lease) as child:
            threading.Event().wait(3.5)
            assert child.poll() is None, "it is renewed"
            monkeypatch.setattr("tutti.storage.catalog.leasing.renew", fail)
            deadline = time.monotonic() + 60
            while child.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert "the leases on its GPUs were not renewed for 1.8 s" in child.log_tail()


def test_waiting_does_not_block_the_event_loop(catalog: storage.Catalog, listed: MakeGpus) -> None:
    """A claim that is cancelled in the middle of an attempt holds nothing."""
    listed(1)

    async def take(hold_s: float) -> None:
        async with lease_gpus_async(catalog, of(1, wait_s=20)):
            await asyncio.sleep(hold_s)

    async def main() -> None:
        first = asyncio.create_task(take(0.5))
        await asyncio.sleep(0.2)
        await asyncio.gather(first, take(0.0))
        for delay_s in (0.0, 0.002, 0.005, 0.01):
            task = asyncio.create_task(take(5))
            await asyncio.sleep(delay_s)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert states(catalog)[0] == "free"

    asyncio.run(asyncio.wait_for(main(), 60))


def test_cards_without_uuid_are_given_by_index(catalog: storage.Catalog, listed: MakeGpus) -> None:
    """All GPUs are then given by index, because CUDA accepts no mixture."""
    listed(2).write_text("gpus: [{index: 0, uuid: GPU-a}, {index: 1}]\n")
    with lease_gpus(catalog, of(2)) as lease:
        assert lease.environment["CUDA_VISIBLE_DEVICES"] == "0,1"
