"""BigCodeBench's rule: all cases of a `unittest` class pass, in the process of the solution.

``target``: ``tests`` (Python text with the class ``TestCases``), ``cases`` (the names of its
tests), ``entry_point``, ``before`` (what stands before every solution: the calibration) and
``libraries`` (the modules that the task names). What is run of a reply is in `code_parts`.

Such tests replace names of the solution's module, so they cannot run apart from it as those of the
scorer ``code`` do. What a solution prints, how it exits and which files it writes say nothing: the
verdict is made here of a report with a token that the process gets after the last case; the report
must name every case of the tests' text, once, as passed; and `unittest` and the builtins must not
have changed. A program written against this scorer can still forge a report, or compare equal to
everything, for the reasons in docs/security.md. The published program is fooled by more: a solution
that skips the tests, changes `unittest` or sends itself the state "passed" is right there.

The interpreter is the one that TUTTI_CODE_PYTHON names, else tutti's with its standard library
only. Where a library is missing there, ScorerFailed names it.
"""

import inspect
import json
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tutti.tasks.sandbox import (
    CODE_PYTHON,
    SandboxLimits,
    SandboxPython,
    SandboxUnavailable,
    python_for_code,
)
from tutti.tasks.scoring.children import code_parts, unittest_child
from tutti.tasks.scoring.score import (
    CodeSandbox,
    Needs,
    Score,
    ScorerFailed,
    ScoringResources,
    Submission,
)
from tutti.tasks.scoring.target import needed, said

LIMITS = SandboxLimits(
    seconds=242.0,  # BigCodeBench's 240 s, and the second that it adds twice
    memory_mb=30 * 1024,  # its limit of each process's address space
    total_mb=4 * 1024,
    processes=128,  # numerical libraries start threads
    file_mb=256,
    files=10_000,
)
_SAME_NAMES = (
    "blake3 chardet cryptography django docxtpl faker folium gensim geopandas geopy holidays keras"
    " librosa lxml matplotlib mechanize multidict natsort nltk numpy obspy openpyxl pandas"
    " prettytable psutil pyquery pytesseract pytz regex requests rsa scipy seaborn selenium"
    " sendgrid shapely soundfile sqlalchemy statsmodels sympy tensorflow textblob texttable torch"
    " werkzeug wikipedia wordcloud wordninja wtforms xlrd xlwt xmltodict flask"
)
KNOWN: dict[str, str] = {name: name for name in _SAME_NAMES.split()} | {
    "Crypto": "pycryptodome",
    "IPython": "ipython",
    "Levenshtein": "python-Levenshtein",
    "PIL": "Pillow",
    "aspose": "aspose-words",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "flask_login": "Flask-Login",
    "flask_mail": "Flask-Mail",
    "flask_restful": "Flask-RESTful",
    "flask_wtf": "Flask-WTF",
    "mpl_toolkits": "matplotlib",
    "python_http_client": "python-http-client",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "PyYAML",
}
"""The benchmark's third-party modules, and the packages that have them. A solution that imports one
that is missing here is not wrong because of it."""
_FUTURE = "from __future__ import annotations\n"
_SHOWN, _SHOWN_CHARS = 20, 500


class BigCodeBench:
    """Runs the code and its test cases in one process."""

    name: str = "bigcodebench"
    version: str = "1"
    needs: Needs = "sandbox"

    def __init__(self, limits: SandboxLimits = LIMITS) -> None:
        self.limits = limits

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """Right if all cases pass; the detail has those that did not, and the last error.

        Raises ScorerFailed without a sandbox, or if a library is missing in its Python.
        """
        if resources.sandbox is None:
            raise ScorerFailed("needs a sandbox")
        given = {
            "reply": said(submission),
            "before": needed(target, "before", str),
            "tests": needed(target, "tests", str),
            "entry_point": needed(target, "entry_point", str),
            "libraries": needed(target, "libraries", list),
            "known": list(KNOWN),
        }
        wanted = sorted(needed(target, "cases", list))
        code, detail = await self._run(resources.sandbox, given, wanted)
        correct = detail["status"] == "ok"
        return Score(self.name, self.version, float(correct), correct, code, detail)

    async def _run(
        self, sandbox: CodeSandbox, given: Mapping[str, Any], wanted: list[str]
    ) -> tuple[str | None, dict[str, Any]]:
        """The code that was run, None if its process ended first; and the detail."""
        token = secrets.token_hex(16)
        both = inspect.getsource(unittest_child)
        asker = f"{inspect.getsource(code_parts)}\n{both.replace(_FUTURE, '')}\n"
        asker += f"ask_for_cases({given!r}, {token.encode()!r}, send, receive)\n"
        # One name less by which a solution can find the way out.
        answerer = f"{both}\nways = [send, receive]\ndel send, receive\n"
        answerer += f"answer_cases({given['tests']!r}, ways.pop(0), ways.pop())\n"
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
        return word["code"], _verdict(word["report"], token, wanted, "skip" in given["tests"])


def _verdict(report: str, token: str, wanted: list[str], may_skip: bool) -> dict[str, Any]:
    """The detail of a report; anything but one line for every case, each passed, is no pass."""
    head, _, rest = report.partition("\n")
    if head != token:
        return {"status": "no report", "cases": len(wanted)}
    lines, _, output = rest.partition("\n\n")
    outcomes = [line.partition(" ") for line in lines.splitlines()]
    fine = ("passed", "skipped") if may_skip else ("passed",)
    passed = sorted(name for outcome, _, name in outcomes if outcome in fine)
    if wanted and passed == wanted and len(outcomes) == len(wanted):
        return {"status": "ok", "cases": len(wanted)}
    changed = any(outcome == "changed" for outcome, _, _ in outcomes)
    return {
        "status": "unittest or builtins changed" if changed else "error",
        "cases": len(wanted),
        "failed": sorted({line for line in lines.splitlines() if line[:7] != "passed "})[:_SHOWN],
        "output": output[-_SHOWN_CHARS:],
    }


def _missing(modules: list[str], python: SandboxPython | None) -> str:
    """What the user is told of missing modules, with the command that installs them."""
    packages = " ".join(dict.fromkeys(KNOWN.get(name, name) for name in modules))
    if python is None:
        pip = f"python3 -m venv FOLDER && FOLDER/bin/pip install {packages}"
        return f"set {CODE_PYTHON} to a Python that has {', '.join(modules)}: `{pip}`"
    pip = f"{python.executable} -m pip install {packages}"
    return f"{CODE_PYTHON} names a Python without {', '.join(modules)}: `{pip}`"
