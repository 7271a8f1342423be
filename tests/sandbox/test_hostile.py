"""Tests that all hostile programs are contained at the strongest level that this machine supports.

The level is in each test's name. The other walled level is tested with the e2e tests.
"""

import asyncio
import os
import signal
import struct
import threading
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from tests.sandbox.hostile import GROUPS, judge
from tests.sandbox.hostile.case import Check, Hostile
from tests.sandbox.hostile.judge import (
    NoWalls,
    Verdict,
    first_mark,
    judge_all,
    judge_at,
    processes_limited_to,
    world,
)
from tutti.tasks.sandbox import Sandbox, SandboxUnavailable, walls
from tutti.tasks.sandbox.walls import LEVELS, strongest_level

LEVEL = strongest_level()
AT_ONCE = 6  # most of the slow ones sleep
BY_NAME = {case.name: case for cases in GROUPS.values() for case in cases}
# Of each kind one that is harmless to let go, and the check that must see it.
LET_GO: dict[str, Check] = {
    "overwrite": "canary",
    "remove": "canary",
    "new_part_in_the_store": "canary",
    "secret_file": "secret",
    "environment": "secret",
    "keyring": "secret",
    "tcp": "sockets",
    "udp": "sockets",
    "abstract_unix_socket": "sockets",
    "stop_the_victim": "victims",
    "daemon_by_double_fork": "processes",
    "temporary_files": "output",
}


def contained(verdicts: list[Verdict]) -> dict[str, list[str]]:
    """Return the breaches by program; the expected result is empty."""
    return {one.case.name: one.breaches for one in verdicts if one.breaches}


def test_there_are_two_hundred_and_each_says_how_it_is_judged() -> None:
    cases = [case for group in GROUPS.values() for case in group]
    assert len(cases) >= 200 and len(BY_NAME) == len(cases)
    known = set(get_args(Check))
    assert all(case.judged and set(case.judged) <= known for case in cases)
    assert len({case.code for case in cases}) == len(cases)


@pytest.mark.slow
@pytest.mark.skipif(LEVEL == "limits", reason="no walls work on this machine, only the fence")
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("level", [LEVEL])
def test_they_are_contained(level: str, group: str) -> None:
    assert contained(judge_at(level, GROUPS[group], AT_ONCE)) == {}


@pytest.mark.e2e
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("level", [name for name in LEVELS if name not in ("limits", LEVEL)])
def test_they_are_contained_at_the_other_walled_level(level: str, group: str) -> None:
    try:
        Sandbox(level)
    except SandboxUnavailable as unavailable:
        pytest.skip(str(unavailable))
    assert contained(judge_at(level, GROUPS[group], AT_ONCE)) == {}


def judged_without_walls(case: Hostile) -> list[str]:
    with world() as outside:
        if case.name == "keyring" and not outside.has_keyring:
            pytest.skip("this machine lets us keep no keys")
        [verdict] = asyncio.run(judge_all([case], outside, NoWalls))
        os.kill(outside.victim.pid, signal.SIGCONT)
        for pid in processes_limited_to(first_mark()):
            os.kill(pid, signal.SIGKILL)
    return verdict.breaches


@pytest.mark.parametrize(("name", "check"), LET_GO.items())
def test_the_judge_sees_who_gets_out(name: str, check: Check) -> None:
    """Without walls the same programs do harm, and the corresponding check reports it."""
    breaches = judged_without_walls(BY_NAME[name])
    assert any(breach.startswith(f"{check}:") for breach in breaches), breaches


@pytest.mark.skipif(LEVEL == "limits", reason="no walls work on this machine, only the fence")
def test_the_filter_of_calls_closes_what_walls_leave_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: walled programs could reach uncounted memory and kernel keys of the caller."""
    allow_all = struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)
    monkeypatch.setattr(walls, "system_call_filter", lambda walled: allow_all)
    names = ["memory_file", "system_v_memory", "spliced_pages"]
    assert set(contained(judge_at(LEVEL, [BY_NAME[name] for name in names]))) == set(names)


@pytest.mark.parametrize(("others_gib", "left_gib"), [(1, 4), (5, 8)])
def test_memory_that_others_take_is_not_the_programs(
    others_gib: int, left_gib: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: two engines that other tests started meanwhile were taken for a breach."""
    monkeypatch.setattr(judge, "_available_kb", lambda: 4 << 20)
    monkeypatch.setattr(judge, "_others_kb", lambda: others_gib << 20)
    outside: Any = SimpleNamespace(memory_was_kb=8 << 20, others_were_kb=1 << 20, lowest_kb=8 << 20)
    stop = threading.Event()
    waits = iter((False, True))
    monkeypatch.setattr(stop, "wait", lambda seconds: next(waits))
    judge._sample(outside, stop)
    assert outside.lowest_kb == left_gib << 20
