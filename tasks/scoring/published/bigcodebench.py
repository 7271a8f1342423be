"""BigCodeBench's rule: all cases of a `unittest` class pass, in the process of the solution.

Target: ``tests`` (with the class ``TestCases``), ``cases`` (the names of its tests),
``entry_point``, ``before`` (the code before every solution: the calibration) and ``libraries`` (the
modules that the task names). `code_parts` takes the code from a reply.

The verdict is made here, from a report under a token whose second half the process gets after the
last case. The report must name every case of the tests' text, once, as passed (or as skipped, where
the text says so). Code that reaches for the tests is not run. A reply that passes is run again with
wrong expectations (`controls`), and must then fail every case. docs/security.md names the remaining
gaps.
"""

import inspect
import json
import secrets
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from tutti.tasks.sandbox import (
    CODE_PYTHON,
    CodeRunner,
    SandboxLimits,
    SandboxPython,
    SandboxUnavailable,
    missing_modules,
    python_for_code,
)
from tutti.tasks.scoring.children import code_parts, unittest_child
from tutti.tasks.scoring.published.controls import controls, excuses
from tutti.tasks.scoring.rules.score import (
    Score,
    Scorer,
    ScorerFailed,
    ScoringResources,
    Submission,
    Target,
    needed,
)

LIMITS = SandboxLimits(
    seconds=242.0,  # BigCodeBench's 240 s, and the second that it adds twice
    memory_mb=30 * 1024,  # its limit of each process's address space
    total_mb=4 * 1024,
    processes=128,  # numerical libraries start threads
    file_mb=256,
    files=10_000,
)
PACKAGES = {
    "Crypto": "pycryptodome",
    "IPython": "ipython",
    "Levenshtein": "python-Levenshtein",
    "PIL": "Pillow",
    "aspose": "aspose-words",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "mpl_toolkits": "matplotlib",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "PyYAML",
}
"""The benchmark's third-party modules that have another name than their package."""
_FUTURE = "from __future__ import annotations\n"
_SHOWN, _SHOWN_CHARS = 20, 500


class BigCodeBench(Scorer):
    """Runs the code and its test cases in one process."""

    name = "bigcodebench"
    version = "2"
    needs = "sandbox"

    def __init__(self, limits: SandboxLimits = LIMITS) -> None:
        self.limits = limits

    async def score(
        self, target: Target, submission: Submission, resources: ScoringResources
    ) -> Score:
        """Right if all cases pass; the detail has the other cases and the last error."""
        sandbox, tests = resources.code_runner, needed(target, "tests", str)
        entry_point = needed(target, "entry_point", str)
        given: dict[str, Any] = {
            "reply": submission.final_text,
            "before": needed(target, "before", str),
            "tests": tests,
            "entry_point": entry_point,
            "modules": sorted(modules_of(target)),
        }
        wanted = sorted(needed(target, "cases", list))
        excused = excuses(tests, wanted)
        code, report = await self._run(sandbox, given)
        detail = _verdict(report, wanted, excused)
        sure = [case for case in wanted if not excused[case]]
        given["tests"], failures = controls(tests, sure, entry_point)
        if detail["status"] == "ok" and failures:
            _, report = await self._run(sandbox, given)
            detail = _control_verdict(report, failures, detail)
        return self.result(detail["status"] == "ok", answer=code, detail=detail)

    async def _run(
        self, sandbox: CodeRunner, given: Mapping[str, Any]
    ) -> tuple[str | None, str | dict[str, Any]]:
        """The code that was run, None if its process ended first; its report, or a detail."""
        token = secrets.token_hex(unittest_child.HALF)  # twice as many characters
        parts, both = map(inspect.getsource, (code_parts, unittest_child))
        asker = _FUTURE + f"{parts}\n{both}".replace(_FUTURE, "")
        asker += f"ask_for_cases({given!r}, {token.encode()!r}, send, receive)\n"
        # One name less by which a solution can find the way out.
        answerer = f"{both}\nways = [send, receive]\ndel send, receive\n"
        texts = f"{given['before']!r}, {given['tests']!r}"
        answerer += f"answer_cases({texts}, ways.pop(0), ways.pop())\n"
        try:
            python = python_for_code()
            talk = await sandbox.talk(asker, answerer, replace(self.limits, python=python))
        except SandboxUnavailable as error:
            raise ScorerFailed(str(error)) from error
        if talk.word is None:
            ended = "exit before the tests ended" if talk.status == "ok" else talk.status
            return None, {"status": ended, "output": talk.errors[-_SHOWN_CHARS:]}
        word = json.loads(talk.word)
        if "missing" in word:
            raise ScorerFailed(_missing(word["missing"], python))
        if "reaches" in word:
            return word["code"], {"status": "reaches for its tests", "name": word["reaches"]}
        head, _, report = word["report"].partition("\n")
        return word["code"], report if head == token else {"status": "no report"}


def _verdict(
    report: str | dict[str, Any], wanted: list[str], excused: Mapping[str, AbstractSet[str]]
) -> dict[str, Any]:
    """The detail of a report: ok only with one line for every case, each passed or `excused`."""
    if isinstance(report, dict):
        return report | {"cases": len(wanted)}
    lines, outcomes = _outcomes(report)
    passed = [name for outcome, name in outcomes if outcome in {"passed", *excused.get(name, ())}]
    if wanted and sorted(passed) == wanted and len(outcomes) == len(wanted):
        return {"status": "ok", "cases": len(wanted)}
    changed = any(outcome == "changed" for outcome, _ in outcomes)
    return {
        "status": "changed what its tests use" if changed else "error",
        "cases": len(wanted),
        "failed": sorted({line for line in lines if line[:7] != "passed "})[:_SHOWN],
        "output": report.partition("\n\n")[2][-_SHOWN_CHARS:],
    }


def _control_verdict(
    report: str | dict[str, Any], failures: Mapping[str, int], ok: dict[str, Any]
) -> dict[str, Any]:
    """Return `ok` if each case failed as often as it must, else a detail."""
    if isinstance(report, dict):
        return ok | report | {"status": f"with wrong tests: {report['status']}"}
    _, outcomes = _outcomes(report)
    passed = [case for case, most in failures.items() if outcomes.count(("failed", case)) < most]
    if passed:
        return ok | {"status": "passes wrong tests", "passed": sorted(passed)[:_SHOWN]}
    return ok


def _outcomes(report: str) -> tuple[list[str], list[tuple[str, str]]]:
    lines = report.partition("\n\n")[0].splitlines()
    return lines, [(outcome, name) for outcome, _, name in (each.partition(" ") for each in lines)]


def modules_of(target: Mapping[str, Any]) -> set[str]:
    """Return the top-level modules that a task lists, and that its code and tests import."""
    texts = (needed(target, "before", str), needed(target, "tests", str))
    return set(needed(target, "libraries", list)).union(*map(code_parts.packages, texts))


def check_modules(targets: Sequence[Mapping[str, Any]]) -> None:
    """Raise ScorerFailed if a module of a task is missing, SandboxUnavailable without Python."""
    modules, python = [modules_of(target) for target in targets], python_for_code()
    missing = missing_modules(set().union(*modules), python)
    if missing:
        lacking = sum(not each.isdisjoint(missing) for each in modules)
        fits = rf"not regexp_matches(modules, '\b({'|'.join(missing)})\b')"
        raise ScorerFailed(
            f"{lacking} of {len(targets)} tasks cannot be scored: {_missing(missing, python)}\n"
            f'Or leave them out: --where "{fits}"'
        )


def _missing(modules: list[str], python: SandboxPython | None) -> str:
    packages = " ".join(dict.fromkeys(PACKAGES.get(name, name) for name in modules))
    if python is None:
        pip = f"python3 -m venv FOLDER && FOLDER/bin/pip install {packages}"
        return f"set {CODE_PYTHON} to a Python that has {', '.join(modules)}: `{pip}`"
    pip = f"{python.executable} -m pip install {packages}"
    return f"{CODE_PYTHON} names a Python without {', '.join(modules)}: `{pip}`"
