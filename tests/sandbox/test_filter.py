"""Tests of the system call filter, by interpreting its program as the kernel would."""

import ctypes
import errno
import os
import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sandbox.denied import denied_calls
from tutti.tasks.sandbox.filter import system_call_filter

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
MACHINE = os.uname().machine
ALLOW, KILL = 0x7FFF0000, 0x80000000
REFUSE, MISSING = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
SOCKET, CLONE, CLONE3 = {"x86_64": (41, 56, 435), "aarch64": (198, 220, 435)}.get(
    MACHINE, (0, 0, 0)
)

pytestmark = pytest.mark.skipif(
    MACHINE not in ARCHITECTURES, reason=f"no filter is made for {MACHINE}"
)


def verdict(number: int, first: int = 0, *, walled: bool = True, arch: int | None = None) -> int:
    """Return the filter's verdict on a call, by an interpreter of its few instructions."""
    arch = ARCHITECTURES[MACHINE] if arch is None else arch
    data = struct.pack("=IIQQ", number, arch, 0, first)
    steps = list(struct.iter_unpack("=HBBI", system_call_filter(walled)))
    at, held = 0, 0
    while True:
        code, when_true, when_false, operand = steps[at]
        at += 1
        if code == 0x20:
            [held] = struct.unpack_from("=I", data, operand)
        elif code == 0x06:
            return int(operand)
        else:
            tests = {0x15: held == operand, 0x35: held >= operand, 0x45: held & operand != 0}
            at += when_true if tests[code] else when_false


@given(st.integers(0, 2**30 - 1), st.integers(0, 2**32 - 1), st.booleans())
def test_a_call_is_refused_only_if_it_is_listed(number: int, first: int, walled: bool) -> None:
    listed = number in denied_calls(walled).values()
    judged_by_argument = number in (SOCKET, SOCKET + 1, 53, CLONE, CLONE3)
    if not judged_by_argument:
        assert verdict(number, first, walled=walled) == (REFUSE if listed else ALLOW)


@pytest.mark.parametrize("walled", [True, False])
def test_every_listed_call_is_refused(walled: bool) -> None:
    for name, number in denied_calls(walled).items():
        assert verdict(number, 1, walled=walled) == REFUSE, name
    assert set(denied_calls(True)) < set(denied_calls(False))


@given(st.integers(0, 2**32 - 1))
def test_only_unix_sockets_are_allowed(family: int) -> None:
    assert verdict(SOCKET, family) == (ALLOW if family == 1 else REFUSE)


@given(st.integers(0, 2**32 - 1))
def test_no_clone_makes_a_namespace_and_without_walls_only_threads(flags: int) -> None:
    assert verdict(CLONE, flags) == (REFUSE if flags & 0x7E020000 else ALLOW)
    assert verdict(CLONE, flags, walled=False) == (ALLOW if flags & 0x10000 else REFUSE)
    assert verdict(CLONE3, flags) == MISSING


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_other_tables_of_calls_are_closed(number: int, arch: int) -> None:
    if arch != ARCHITECTURES[MACHINE]:
        assert verdict(number, arch=arch) == KILL
    if MACHINE == "x86_64":
        assert verdict(0x40000000 | number % 2**29) == REFUSE


def test_numbers_are_those_of_this_machines_library() -> None:
    """A wrapper of the C library and our number get the same refusal."""
    code = """
import ctypes, os, sys
from tutti.tasks.sandbox.child import filter_calls
from tutti.tasks.sandbox.filter import system_call_filter
filter_calls(system_call_filter(True), required=True)
library = ctypes.CDLL(None, use_errno=True)
calls = {"memfd_create": (b"x", 0), "unshare": (0,), "mount": (0, 0, 0, 0, 0),
         "umount2": (b"/x", 0),
         "chroot": (b"/x",), "ptrace": (0, 0, 0, 0), "shmget": (0, 1, 0o600), "semget": (0, 1, 0),
         "msgget": (0, 0o600), "setns": (-1, 0), "personality": (-1,), "swapoff": (b"/x",),
         "adjtimex": (0,), "fanotify_init": (0, 0), "sethostname": (b"x", 1), "acct": (b"/x",)}
for name, given in calls.items():
    ctypes.set_errno(0)
    got = getattr(library, name)(*given)
    if got != -1 or ctypes.get_errno() != 1:
        print(name, got, ctypes.get_errno())
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("", "")


def test_a_kernel_that_takes_no_filter_is_an_error_where_one_is_required() -> None:
    from tutti.tasks.sandbox.child import filter_calls

    with pytest.raises(OSError, match="no filter"):
        filter_calls(b"\xff" * 8, required=True)
    assert ctypes.get_errno() >= 0  # and nothing is left in force: this process goes on
    os.close(os.memfd_create("free"))
