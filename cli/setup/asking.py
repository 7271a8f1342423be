"""Asks another program for `tutti doctor`: its lines within a time limit, or why there are none.

In: a command, or a Python and packages to import. Out: text. No provider's key is passed on.
"""

import json
import os
import signal
from collections.abc import Sequence
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from typing import Any

PROVIDERS = ("OPENAI", "AZURE_OPENAI", "ANTHROPIC", "TOGETHER", "NEBIUS", "TAVILY")
PROVIDER_KEYS = tuple(f"{provider}_API_KEY" for provider in PROVIDERS)
IMPORT_BOUND_S = 60.0  # vLLM takes 11 s from a cold disk cache on two cores; a busy laptop longer

# Imports what it is given. Its answer is its last line: imports print too.
_IMPORT_SCRIPT = """
import importlib, json, sys
works, fails = {}, {}
for name in sys.argv[1:]:
    try:
        works[name] = str(importlib.import_module(name).__version__)
    except Exception as error:
        fails[name] = f"{type(error).__name__}: {error}"[:200]
cuda = "torch" in works and sys.modules["torch"].cuda.is_available()
print("\\n" + json.dumps([works, fails, cuda]))
"""


def ask(command: list[str], bound_s: float) -> tuple[list[str], str]:
    """The lines a command prints, at least one; or none, and why.

    Past its bound, the command and what it started are killed.
    """
    # It gets no key: then none can be in what it prints.
    env = {name: value for name, value in os.environ.items() if name not in PROVIDER_KEYS}
    env |= {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}
    pipes: dict[str, Any] = {"stdin": DEVNULL, "stdout": PIPE, "stderr": PIPE, "errors": "replace"}
    try:
        process = Popen(command, env=env, start_new_session=True, **pipes)
    except OSError as error:
        return [], error.strerror or str(error)
    try:
        output, errors = process.communicate(timeout=bound_s)
    except TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its children hold the pipes too
        process.communicate()
        return [], f"no answer within {bound_s:g} s"
    lines = [line for line in output.splitlines() if line.strip()]
    if process.returncode or not lines:
        last = [*lines, *errors.strip().splitlines()][-1:] or ["it printed nothing"]
        return [], f"exit status {process.returncode}: {last[0][:200]}"
    return lines, ""


def import_in(python: str, packages: Sequence[str]) -> tuple[str, str, bool]:
    """Versions of what imports, what does not and why, and whether torch finds CUDA.

    The imports run in a separate process, which can be stopped; an import in this one cannot.
    """
    lines, failure = ask([python, "-c", _IMPORT_SCRIPT, *packages], IMPORT_BOUND_S)
    if failure:
        return "", f"imports failed: {failure}", False
    works, fails, cuda = json.loads(lines[-1])
    versions = ", ".join(f"{name} {version}" for name, version in works.items())
    failures = ", ".join(f"{name} does not import ({why})" for name, why in fails.items())
    return versions, failures, bool(cuda)
