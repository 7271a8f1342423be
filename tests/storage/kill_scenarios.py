"""Scenarios of a store: each kills writers and compactors up to a number of kills."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.storage import kill_worker as worker
from tests.storage.kill_history import (
    CUTS,
    DISK_BYTES,
    LOOSE_CARDS,
    MERGE_CARDS,
    PATIENCE_S,
    REMOVE_CARDS,
    SHORT_LEASE_S,
    STOPS,
    SWEEPS,
    WRITER_CARDS,
    Child,
    History,
)


def one_writer(history: History, kills: int) -> None:
    """Run a sweep's writer and, at times, a gateway's beside it."""
    while (left := kills - history.kills.total()) > 0:
        victims = [history.writer(SWEEPS[0], history.draw("writer", WRITER_CARDS))]
        if left > 1 and history.rng.random() < 0.4:
            victims.append(history.start("loose", history.draw("loose", LOOSE_CARDS)))
        history.fall(victims)


def writers_and_compactor(history: History, kills: int) -> None:
    """Run two sweeps at once, a compactor that keeps files that readers may have open, and a
    verifier."""
    while (left := kills - history.kills.total()) > 0:
        if history.rng.random() < 0.5:
            history.keep_reading()
        start: list[Callable[[], Child]] = [
            lambda: history.start("compactor", history.draw("merge", MERGE_CARDS), grace_s=3600),
            lambda: history.writer(SWEEPS[0], history.draw("writer", WRITER_CARDS)),
            lambda: history.writer(SWEEPS[1], history.draw("writer", WRITER_CARDS)),
            lambda: history.start("loose", history.draw("loose", LOOSE_CARDS)),
            lambda: history.start("verifier", {"delay_s": 0.5}, min_age_s=3600),
        ]
        history.fall([begin() for begin in start[: min(left, history.rng.choice((3, 5, 5)))]])


def compactor_without_grace(history: History, kills: int) -> None:
    """Remove replaced files at once, so that the store is read in between only; orphans are set
    aside."""
    while (left := kills - history.kills.total()) > 0:
        writer = history.writer(SWEEPS[0])
        for _ in range(min(left, history.rng.randint(1, 4))):
            more = len(writer.said) + 3
            history.until(partial(_says_more, writer, more), "attempts")
            trap = history.draw("remove", REMOVE_CARDS)
            history.fall([history.start("compactor", trap, grace_s=0)], reading=False)
        history.kill(writer, "beside a compactor")
        trap = {"point": history.rng.choice(worker.PLACED)}
        _set_orphans_aside(history, trap)
        history.read()


def _says_more(child: Child, number: int) -> bool:
    return len(child.said) > number


def _set_orphans_aside(history: History, trap: dict[str, Any]) -> None:
    """Run a repair that is killed when it has moved the first file, if there is one to move."""
    verifier = history.start("verifier", trap, min_age_s=0, until=1)
    history.until(lambda: verifier.dead, "the verifier")
    if not verifier.has("ended"):
        history.count(verifier)


def end(history: History, child: Child) -> None:
    """End a process without counting it as a kill."""
    child.signal(signal.SIGKILL)
    history.until(lambda: child.dead, f"the end of {child.name}")


def contended_lease(history: History, kills: int) -> None:
    """Let a writer sleep past its lease while another takes over; its later commits are refused."""
    sweep = SWEEPS[0]
    while history.kills.total() < kills or not history.refused:
        first = history.writer(sweep, history.draw("stop", STOPS), lease_s=SHORT_LEASE_S)
        history.until(partial(_stopped_or_finished, first), "the first to work")
        second = history.writer(sweep, history.draw("writer", WRITER_CARDS), lease_s=SHORT_LEASE_S)
        history.until(partial(_stopped, first), "the first to stop")
        took_over, never_wakes = _wait_for_take_over(history, second), history.rng.random() < 0.3
        history.read()
        if took_over and never_wakes:
            history.kill(first, "asleep past its lease")
        elif took_over:
            _wake_late(history, first)
        else:  # it sleeps inside a transaction: nobody can take over, and it may go on
            first.signal(signal.SIGCONT)
            history.kill(first, "awake in time")
        if history.kills.total() < kills:
            history.fall([second])
        else:
            end(history, second)


def _stopped(child: Child) -> bool:
    return child.stopped


def _stopped_or_finished(child: Child) -> bool:
    return child.stopped or bool(child.has("finished"))


def _wait_for_take_over(history: History, second: Child) -> bool:
    over = time.monotonic() + 4 * SHORT_LEASE_S
    history.until(lambda: second.has("holding") or second.dead or time.monotonic() > over, "lease")
    return bool(second.has("holding"))


def _wake_late(history: History, first: Child) -> None:
    before = len(first.has("finished"))
    first.signal(signal.SIGCONT)
    history.until(lambda: first.dead, "the late writer's end", reading=True)
    assert first.has("refused"), f"a writer without its lease went on: {first.said[-3:]}"
    # Stopped between a commit and saying so, it may say so now; no more than that.
    assert len(first.has("finished")) <= before + 1


@dataclass
class Trouble:
    """Condition that prevents writes to a store, and its end."""

    name: str
    begin: Callable[[], None]
    end: Callable[[], object]
    is_noticed: bool = True
    """Whether every writer must hear of it; what a writer can settle by itself it does not tell."""


def _through(history: History, kills: int, troubles: list[Trouble]) -> None:
    """Let writers meet a trouble; they continue after it, or are killed during it."""
    while (left := kills - history.kills.total()) > 0:
        trouble = history.rng.choice(troubles)
        writers = [history.writer(SWEEPS[0]), history.start("loose")][:left]
        if left > 2:
            writers.append(history.start("compactor", grace_s=3600))
        history.until(partial(_all_work, writers[:2]), "the writers to work")
        trouble.begin()
        try:
            before = [len(each.has("trouble")) for each in writers[:2]]
            history.until(
                partial(_noticed, trouble, writers, before),
                f"{trouble.name} to be noticed",
                reading=True,
            )
            if not trouble.is_noticed:
                time.sleep(history.rng.uniform(0.1, 0.4))
            history.read()
            survivors = _kill_some(history, writers, trouble.name)
        finally:
            trouble.end()
        _carry_on(history, survivors, trouble.name)


def _works(child: Child) -> bool:
    return len(child.has("finished")) + len(child.has("loose")) > 1


def _all_work(children: list[Child]) -> bool:
    return all(map(_works, children))


def _noticed(trouble: Trouble, writers: list[Child], before: list[int]) -> bool:
    """Return whether each writer concerned has reported more errors than before."""
    return not trouble.is_noticed or all(
        len(each.has("trouble")) > n for each, n in zip(writers, before, strict=False)
    )


def _kill_some(history: History, writers: list[Child], name: str) -> list[Child]:
    survivors = []
    for child in writers:
        if history.rng.random() < 0.4:
            history.kill(child, name)
        else:
            survivors.append(child)
    history.read()
    return survivors


def _carry_on(history: History, survivors: list[Child], name: str) -> None:
    """Let each writer announce more after the trouble, then kill it as well."""
    waiting = [child for child in survivors if child.order["role"] != "compactor"]
    before = [len(child.said) for child in waiting]
    history.until(
        lambda: all(
            any("finished" in m or "loose" in m for m in child.said[n:])
            for child, n in zip(waiting, before, strict=True)
        ),
        f"the writers to carry on after {name}",
        reading=True,
    )
    for child in survivors:
        history.kill(child, f"after {name}")
    history.read()


def disk_full(history: History, kills: int) -> None:
    """Fill the disk, then free it."""
    disk = history.home.root.parent
    flag, ballast = history.moods / "full", disk / "ballast"
    if not disk.is_mount():
        _through(history, kills, [Trouble("a full disk (pretended)", flag.touch, flag.unlink)])
        return

    def fill() -> None:
        stat = os.statvfs(disk)
        leave = history.rng.choice((0, 0, 4096, 65536))
        try:
            ballast.write_bytes(b"\0" * max(0, stat.f_bavail * stat.f_frsize - leave))
        except OSError as error:  # the writers were faster
            assert error.errno == 28, error

    _through(history, kills, [Trouble("a full disk", fill, ballast.unlink)])


def read_only(history: History, kills: int) -> None:
    """Make the tables' folder or the catalog read-only for a moment."""
    flag, tables = history.moods / "readonly", history.home.tables
    catalog = Trouble("a read-only catalog", flag.touch, flag.unlink)
    tables.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0 and mounted("--bind", str(tables), str(tables)):
        bound = Trouble(
            "a read-only disk",
            lambda: _remount(tables, "ro"),
            lambda: _remount(tables, "rw"),
        )
        try:
            _through(history, kills, [bound, catalog])
        finally:
            history.end()
            subprocess.run(["umount", "-l", str(tables)], check=True)
    elif os.geteuid() != 0:
        folders = Trouble(
            "read-only folders",
            lambda: _set_mode(tables, 0o555),
            lambda: _set_mode(tables, 0o755),
        )
        _through(history, kills, [folders, catalog])
    else:
        _through(history, kills, [catalog])


def no_answer(history: History, kills: int) -> None:
    """Let commits take effect but lose their responses by cutting connections."""
    flag = history.moods / "unanswered"
    troubles = [Trouble("no answer", flag.touch, flag.unlink, is_noticed=False)]
    if url := os.environ.get("TUTTI_CATALOG_URL"):
        cut = Trouble("cut connections", lambda: _cut(url), lambda: None, is_noticed=False)
        troubles.append(cut)
    _through(history, kills, troubles)


def _cut(url: str) -> None:
    """End the server's side of every other connection, several times."""
    pids = "select pid from pg_stat_activity where datname = current_database()"
    others = f"select pg_terminate_backend(pid) from ({pids} and pid <> pg_backend_pid()) others"
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for _ in range(CUTS):
            connection.execute(sa.text(others))
            time.sleep(0.01)
    engine.dispose()


def mounted(*options: str) -> bool:
    """Mount something; return False if that is not permitted."""
    mount = shutil.which("mount")
    return (
        mount is not None and not subprocess.run([mount, *options], capture_output=True).returncode
    )


def _remount(folder: Path, mode: str) -> None:
    """Remount the folder, retrying while it is busy with a write, which is most of the time."""
    end = time.monotonic() + PATIENCE_S
    while not mounted("-o", f"remount,bind,{mode}", str(folder)):
        assert time.monotonic() < end, f"{folder} cannot be made {mode}"


def _set_mode(folder: Path, mode: int) -> None:
    for each in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        each.chmod(mode)


@contextmanager
def place_for(scenario: str, folder: Path) -> Iterator[Path]:
    """Yield a folder; for a disk that fills it is a separate file system, if permitted."""
    folder.mkdir()
    options = ("-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder))
    own = scenario == "disk full" and os.geteuid() == 0 and mounted(*options)
    try:
        yield folder
    finally:
        if own:
            subprocess.run(["umount", "-l", str(folder)], check=True)


SCENARIOS: dict[str, Callable[[History, int], None]] = {
    "one writer": one_writer,
    "writers and compactor": writers_and_compactor,
    "no grace": compactor_without_grace,
    "contended lease": contended_lease,
    "disk full": disk_full,
    "read only": read_only,
    "no answer": no_answer,
}
