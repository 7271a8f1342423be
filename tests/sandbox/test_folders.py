"""Tests of programs that need more than the interpreter: further folders, and /proc."""

import asyncio

import pytest

from tutti.tasks.sandbox import NoSandbox, Sandbox, SandboxLimits, SandboxUnavailable

LOOK = """
import os
print(os.path.exists("/etc/passwd"), os.path.exists(f"/proc/{os.getpid()}/exe"))
"""
WRITE = """
for path in ("/etc/written", "/proc/sys/kernel/hostname", "/proc/self/oom_score_adj"):
    try:
        open(path, "w").write("1")
        print(path)
    except OSError:
        pass
"""
OTHERS = """
import os
print([each for each in os.listdir("/proc") if each.isdecimal() and int(each) > 200])
"""
WIDER = SandboxLimits(seconds=20.0, folders=("/etc",), proc=True)


@pytest.fixture(params=["bubblewrap", "namespaces"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    try:
        return Sandbox(str(request.param), SandboxLimits(seconds=20.0))
    except SandboxUnavailable as unavailable:
        pytest.skip(str(unavailable))


def test_one_run_sees_more(sandbox: Sandbox) -> None:
    """The folders belong to a run's own limits; the next run of the same sandbox does not have
    them."""
    assert asyncio.run(sandbox.run(LOOK, WIDER)).output == "True True\n"
    assert asyncio.run(sandbox.run(LOOK)).output == "False False\n"


def test_what_it_sees_more_is_read_only_and_its_own(sandbox: Sandbox) -> None:
    """The folders are read-only, and /proc has only the run's own processes."""
    assert asyncio.run(sandbox.run(WRITE, WIDER)).output == ""
    assert asyncio.run(sandbox.run(OTHERS, WIDER)).output == "[]\n"


def test_no_sandbox_refuses_with_limits_too() -> None:
    with pytest.raises(SandboxUnavailable, match="not here"):
        asyncio.run(NoSandbox("not here").run(LOOK, WIDER))
