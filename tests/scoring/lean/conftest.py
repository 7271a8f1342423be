"""Fixtures: a fake of Lean that responds to a proof's content in Lean's own message format."""

import shlex
import sys
from pathlib import Path

import pytest

from tutti.tasks.sandbox import Sandbox
from tutti.tasks.sandbox.walls import strongest_level

_SCRIPT = r"""
import json, os, sys, time
*options, name = sys.argv[1:]
if name == "--version":
    print("Lean (version 4.12.0, stand-in)")
    sys.exit()
text = open(name).read()
lines = text.splitlines()
failed = False

def say(line, severity, data):
    global failed
    failed = failed or severity == "error"
    if "--json" in options:
        place = {"line": line, "column": 0}
        print(json.dumps({"severity": severity, "data": data, "pos": place, "fileName": name}))
    else:
        print(f"{name}:{line}:0: {severity}: {data}")

if "import Missing" in text:
    say(1, "error", "unknown module prefix 'Missing'")
axioms = "does not depend on any axioms"
for number, line in enumerate(lines, 1):
    word = line.strip()
    if word == "sorry":
        say(number, "warning", "declaration uses 'sorry'")
    elif word == "wrong":
        say(number, "error", "unsolved goals")
    elif word == "spin":
        time.sleep(60)
    elif word == "leave":
        sys.exit(0)
    elif word == "look":
        seen = [os.path.exists(each) for each in ("/proc/self/exe", "/etc/passwd", "/work")]
        say(number, "error", f"sees {seen}, {sorted(os.environ)}")
    elif word == "write":
        open("/usr/written", "w")
    elif word == "other assumption":
        axioms = "depends on axioms: [propext, cheat]"
    elif line.startswith("#print axioms"):
        check = line.split()[-1].replace("_root_.", "")
        say(number, "information", f"'{check}' {axioms}")
sys.exit(int(failed))
"""


def stand_in_command() -> str:
    """Return the value of TUTTI_LEAN_COMMAND, with a Python that is visible in the sandbox."""
    python = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    return shlex.join([str(python), "-I", "-c", _SCRIPT])


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set TUTTI_LEAN_COMMAND to the fake."""
    monkeypatch.setenv("TUTTI_LEAN_COMMAND", stand_in_command())
    monkeypatch.delenv("TUTTI_LEAN_PROJECT", raising=False)
    monkeypatch.delenv("TUTTI_LEAN_TIMEOUT_S", raising=False)


@pytest.fixture(scope="session")
def walled() -> Sandbox:
    level = strongest_level()
    if level == "limits":
        pytest.skip("no walls on this machine")
    return Sandbox(level)
