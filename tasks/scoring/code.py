"""Code, by its tests, in the sandbox. Two kinds of target:

- HumanEval, MBPP: ``{"tests": Python that raises where the code is wrong, "entry_point": name,
  "prompt": what the code continues}``; where the tests define ``check``, it is called with the
  entry point, as HumanEval does; test cases of `unittest` are run.
- LiveCodeBench: ``{"cases": [{"input": text, "output": text}], "entry_point": name or nothing}``.
  Without an entry point the code is a program that reads standard input; with one it is a function
  (or a method of ``Solution``) that takes one JSON value per line. Modules are imported for it as
  LiveCodeBench's program does. Each case is one run of the sandbox; scoring stops at the first
  failure.

The code is the last fenced Python block that defines the entry point, else the last one, else (no
fence at all) the whole message. Code that lacks the entry point's definition continues the prompt;
code that has it gets what stands before that definition in the prompt: imports and other functions.

Code is right if it passes all tests within the sandbox's limits. The expected values, the
comparison and the verdict are never in the process that runs the code: tests run in a separate
sandbox and get plain data back (`code_talk`), cases are compared here. Tests that cannot be run
this way (they pass objects of their own classes to the code) raise ScorerFailed. The time limit is
the sandbox's, for each run.
"""

import inspect
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tutti.tasks.sandbox import CodeRunner, SandboxUnavailable
from tutti.tasks.scoring.children import code_child, code_talk
from tutti.tasks.scoring.children.code_child import digest_of_output, digest_of_value
from tutti.tasks.scoring.score import (
    Score,
    Scorer,
    ScorerFailed,
    ScoringResources,
    Submission,
    needed,
    said,
)

_FENCE = re.compile(r"^[ \t]*```[ \t]*+([\w+-]*+)[^\n]*+\n(.*?)(?:^[ \t]*```|\Z)", re.S | re.M)
_PYTHON = ("python", "py", "python3", "")
_SHOWN_CHARS = 500


def last_code(text: str, entry_point: str | None = None) -> str | None:
    """The code in a message, by the rule above; None if all blocks are in other languages."""
    if "```" not in text:
        return text
    blocks: list[str] = [
        code for language, code in _FENCE.findall(text) if language.lower() in _PYTHON
    ]
    defining = [code for code in blocks if entry_point and _definition(code, entry_point)]
    found = defining or blocks
    return found[-1] if found else None


def _definition(code: str, name: str) -> re.Match[str] | None:
    pattern = rf"^[ \t]*(?:async[ \t]+def|def|class)[ \t]+{re.escape(name)}\b"
    return re.search(pattern, code, re.MULTILINE) or re.search(
        rf"^{re.escape(name)}[ \t]*=", code, re.MULTILINE
    )


def completed(code: str, prompt: str, entry_point: str | None) -> str:
    """The whole program: `code`, with the parts of the prompt that it needs."""
    if not prompt or entry_point is None:
        return code
    if not _definition(code, entry_point):
        return prompt + code
    return f"{before_definition(prompt, entry_point)}\n{code}"


def before_definition(prompt: str, entry_point: str | None) -> str:
    """The part of a prompt before the requested function: imports, other functions."""
    start = _definition(prompt, entry_point) if entry_point else None
    return prompt[: start.start()] if start and not start[0][0].isspace() else ""  # not a method


class Code(Scorer):
    """Runs the code against its tests."""

    name = "code"
    version = "2"
    needs = "sandbox"

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """Right if all tests pass; the detail has the run that failed and the end of its output.

        Raises ScorerFailed without a sandbox, or if the sandbox could not run.
        """
        if resources.sandbox is None:
            raise ScorerFailed("code: needs a sandbox")
        entry_point = target.get("entry_point")
        code = last_code(said(submission), entry_point)
        if code is None or not code.strip():
            detail = {"status": "no code"}
            return Score(self.name, self.version, 0.0, False, detail=detail, found_answer=False)
        prompt = target.get("prompt", "")
        source = completed(code, prompt, entry_point)
        try:
            if "cases" in target:
                cases = needed(target, "cases", list)
                detail = await _run_cases(resources.sandbox, source, entry_point, cases)
            else:
                tests = needed(target, "tests", str)
                before = before_definition(prompt, entry_point)
                detail = await _run_tests(
                    resources.sandbox, source, Tests(tests, before, entry_point)
                )
        except SandboxUnavailable as error:
            raise ScorerFailed(f"code: {error}") from error
        correct = detail["status"] == "ok"
        return Score(self.name, self.version, float(correct), correct, code, detail)


@dataclass(frozen=True)
class Tests:
    """The tests of a solution."""

    text: str
    prelude: str
    """The part of the prompt that the tests may use."""
    entry_point: str | None

    def program(self) -> str:
        """The program for the tests' sandbox."""
        call = ""
        if self.entry_point and re.search(r"^def check\(", self.text, re.M):
            call = f"\ncheck({self.entry_point})"
        given = (self.prelude, self.text + call, self.entry_point)
        arguments = ", ".join(map(repr, given))
        return f"{inspect.getsource(code_talk)}\nrun_tests({arguments}, send, receive)\n"


async def _run_tests(sandbox: CodeRunner, source: str, tests: Tests) -> dict[str, Any]:
    """Run the tests. Raises ScorerFailed if the tests themselves cannot be run."""
    answerer = f"{inspect.getsource(code_talk)}\nanswer({source!r}, send, receive)\n"
    talk = await sandbox.talk(tests.program(), answerer)
    if talk.word is None:
        output = talk.errors[-_SHOWN_CHARS:]
        if talk.status == "ok":
            return {"status": "exit before the tests ended", "output": output}
        return {"status": talk.status, "output": output}
    verdict = json.loads(talk.word)
    if "broken" in verdict:
        raise ScorerFailed(f"code: the tests cannot be run: {verdict['broken']}")
    if verdict["passed"] is True:
        return {"status": "ok"}
    return {"status": "error", "output": verdict["output"][-_SHOWN_CHARS:]}


async def _run_cases(
    sandbox: CodeRunner, source: str, entry_point: str | None, cases: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
    if not cases:
        raise ScorerFailed("code: the target has no cases")
    for place, case in enumerate(cases):
        expected = _expected(case["output"], entry_point)
        mark = secrets.token_hex(16)
        ran = await sandbox.run(_case_program(source, entry_point, case["input"], mark))
        lines = ran.output.rstrip().splitlines()[-1:]
        if ran.status != "ok" or lines != [f"{mark} {expected}"]:
            status = "wrong output" if ran.status == "ok" else ran.status
            output = ran.output[-_SHOWN_CHARS:] if ran.status != "ok" else ""
            return {"status": status, "case": place, "cases": len(cases), "output": output}
    return {"status": "ok", "cases": len(cases)}


def _expected(output: str, entry_point: str | None) -> str:
    if entry_point is None:
        return digest_of_output(output)
    try:
        return digest_of_value(json.loads(output))
    except json.JSONDecodeError as error:
        raise ScorerFailed(f"code: a case's output is not JSON: {output[:80]!r}") from error


def _case_program(source: str, entry_point: str | None, given: str, mark: str) -> str:
    """The program for the sandbox: prints the mark of this run and the result of the call."""
    call = (
        f"run_script({source!r}, {given!r})"
        if entry_point is None
        else f"run_function({source!r}, {entry_point!r}, {given!r})"
    )
    return f"{inspect.getsource(code_child)}\nprint({mark!r}, {call})\n"
