"""Code, tested in the sandbox. There are two kinds of target:

``{"tests": Python that raises if the code is wrong, "entry_point": name, "prompt": text that the
code continues}`` (HumanEval, MBPP): if the tests define ``check``, it is called with the entry
point. ``{"cases": [{"input": text, "output": text}], "entry_point": name or nothing}``
(LiveCodeBench): without an entry point the code is a program that reads standard input; with one it
is a function, or a method of ``Solution``, that takes one JSON value per line.

The expected values, the comparison and the verdict are never in the process that runs the code:
tests run in a separate sandbox and get plain data back (`code_talk`), cases are compared here.
"""

import inspect
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from tutti.tasks.sandbox import CodeRunner, SandboxUnavailable
from tutti.tasks.scoring.children import code_child, code_talk
from tutti.tasks.scoring.children.code_child import digest_of_output, digest_of_value
from tutti.tasks.scoring.rules.score import (
    Score,
    Scorer,
    ScorerFailed,
    ScoringResources,
    Submission,
    Target,
    needed,
)

_FENCE = re.compile(r"^[ \t]*```[ \t]*+([\w+-]*+)[^\n]*+\n(.*?)(?:^[ \t]*```|\Z)", re.S | re.M)
_PYTHON = ("python", "py", "python3", "")
_SHOWN_CHARS = 500


def last_code(text: str, entry_point: str | None = None) -> str | None:
    """The last Python block, if possible with the entry point; the text if it has no fence."""
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
    """The whole program: the code after the prompt, or after the part of it that it needs."""
    if not prompt or entry_point is None:
        return code
    if not _definition(code, entry_point):
        return prompt + code
    return f"{before_definition(prompt, entry_point)}\n{code}"


def before_definition(prompt: str, entry_point: str | None) -> str:
    """Return the part of a prompt before the requested function: imports, other functions."""
    start = _definition(prompt, entry_point) if entry_point else None
    return prompt[: start.start()] if start and not start[0][0].isspace() else ""  # not a method


class Code(Scorer):
    """Runs the code against its tests."""

    name = "code"
    version = "2"
    needs = "sandbox"

    async def score(
        self, target: Target, submission: Submission, resources: ScoringResources
    ) -> Score:
        sandbox, entry_point = resources.code_runner, target.get("entry_point")
        code = last_code(submission.final_text, entry_point)
        if code is None or not code.strip():
            return self.result(False, detail={"status": "no code"}, found_answer=False)
        prompt = target.get("prompt", "")
        source = completed(code, prompt, entry_point)
        try:
            if "cases" in target:
                cases = needed(target, "cases", list)
                detail = await _run_cases(sandbox, source, entry_point, cases)
            else:
                tests = needed(target, "tests", str)
                if entry_point and re.search(r"^def check\(", tests, re.M):
                    tests += f"\ncheck({entry_point})"
                before = before_definition(prompt, entry_point)
                call = f"run_tests({before!r}, {tests!r}, {entry_point!r}, send, receive)"
                detail = await _run_tests(sandbox, source, call)
        except SandboxUnavailable as error:
            raise ScorerFailed(f"code: {error}") from error
        return self.result(detail["status"] == "ok", answer=code, detail=detail)


async def _run_tests(sandbox: CodeRunner, source: str, call: str) -> dict[str, Any]:
    """Run the tests by `call`. Raises ScorerFailed if the tests themselves cannot be run."""
    shared = inspect.getsource(code_talk)
    answerer = f"{shared}\nanswer({source!r}, send, receive)\n"
    talk = await sandbox.talk(f"{shared}\n{call}\n", answerer)
    if talk.word is None:
        status = "exit before the tests ended" if talk.status == "ok" else talk.status
        return {"status": status, "output": talk.errors[-_SHOWN_CHARS:]}
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
        output = case["output"]
        try:
            is_script = entry_point is None
            expected = (
                digest_of_output(output) if is_script else digest_of_value(json.loads(output))
            )
        except json.JSONDecodeError as error:
            raise ScorerFailed(f"code: a case's output is not JSON: {output[:80]!r}") from error
        if entry_point is None:
            call = f"run_script({source!r}, {case['input']!r})"
        else:
            call = f"run_function({source!r}, {entry_point!r}, {case['input']!r})"
        mark = secrets.token_hex(16)  # begins the last line of this run
        ran = await sandbox.run(f"{inspect.getsource(code_child)}\nprint({mark!r}, {call})\n")
        lines = ran.output.rstrip().splitlines()[-1:]
        if ran.status != "ok" or lines != [f"{mark} {expected}"]:
            status = "wrong output" if ran.status == "ok" else ran.status
            shown = ran.output[-_SHOWN_CHARS:] if ran.status != "ok" else ""
            return {"status": status, "case": place, "cases": len(cases), "output": shown}
    return {"status": "ok", "cases": len(cases)}
