"""Tests of code: the code taken from a message, and that only code that passes its tests is
correct."""

from typing import Any

import pytest

from tutti.tasks.sandbox import Sandbox, SandboxResult, SandboxUnavailable, TalkResult
from tutti.tasks.scoring import Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.children.code_child import digest_of_output
from tutti.tasks.scoring.rules.code import Code, completed, last_code

PROMPT = 'from math import sqrt\n\ndef help(x):\n    return x\n\ndef root(x):\n    """Of x."""\n'
CHECK = "def check(candidate):\n    assert candidate(9) == 3\n    assert candidate(4) == 2\n"
HUMANEVAL = {"prompt": PROMPT, "entry_point": "root", "tests": CHECK}


def block(code: str, language: str = "python") -> str:
    return f"Here:\n```{language}\n{code}\n```\nDone."


async def scored(sandbox: Sandbox, target: dict[str, Any], text: str) -> Score:
    return await Code().score(target, Submission(None, text), ScoringResources(sandbox=sandbox))


def test_which_block() -> None:
    two = block("def root(x): return 1") + block("print(root(9))")
    assert last_code(two, "root") == "def root(x): return 1\n"
    assert last_code(two) == "print(root(9))\n"
    assert last_code(block("ls", "bash")) is None
    assert last_code("    return sqrt(x)") == "    return sqrt(x)"
    assert last_code("```python\nx = 1") == "x = 1"


def test_what_is_added_of_the_prompt() -> None:
    whole = completed("def root(x): return sqrt(help(x))", PROMPT, "root")
    assert "from math" in whole and "def help" in whole and whole.count("def root") == 1
    starter = "class Solution:\n    def root(self, x):\n"
    method = "class Solution:\n    def root(self, x): return x"
    assert completed(method, starter, "root").strip() == method
    assert completed("    return 1", PROMPT, "root") == PROMPT + "    return 1"


@pytest.mark.parametrize(
    ("text", "correct"),
    [
        (block("def root(x):\n    return sqrt(help(x))"), True),
        ("    return sqrt(x)", True),
        (block("def root(x):\n    print('x' * 10_000)\n    return x ** 0.5"), True),
        (block("    return sqrt(x)"), True),
        (block("def root(x):\n    return 3"), False),
        (block("def root(x):\n    import sys; sys.exit(0)"), False),
        (block("def root(x):\n    import os; os._exit(0)"), False),
        (block("def check(c): pass\ndef root(x): return 0\n"), False),
        (block("def root(x:"), False),
        ("", False),
        (block("rm -r", "bash"), False),
    ],
)
async def test_humaneval(sandbox: Sandbox, text: str, correct: bool) -> None:
    assert (await scored(sandbox, HUMANEVAL, text)).correct is correct


async def test_mbpp(sandbox: Sandbox) -> None:
    target = {"tests": "assert add(1, 2) == 3\nassert add(0, 0) == 0"}
    assert (await scored(sandbox, target, block("def add(a, b): return a + b"))).correct
    failed = await scored(sandbox, target, block("def add(a, b): return 3"))
    assert not failed.correct and "AssertionError" in failed.detail["output"]


async def test_standard_input(sandbox: Sandbox) -> None:
    cases = [{"input": "2\n1 2\n", "output": "3.0\n\n"}, {"input": "1\n5", "output": "5"}]
    good = "n = int(input())\nprint(sum(map(int, input().split())), end=' \\n')"
    assert (await scored(sandbox, {"cases": cases}, block(good))).correct
    guarded = "import sys\nif __name__ == '__main__':\n    sys.stdin.readline()\n"
    guarded += "    print(sum(map(int, sys.stdin.read().split())))\n    sys.exit()"
    assert (await scored(sandbox, {"cases": cases}, block(guarded))).correct
    failed = await scored(sandbox, {"cases": cases}, block("print(3)"))
    assert not failed.correct and failed.detail["case"] == 1
    assert not (await scored(sandbox, {"cases": cases}, block("import os; os._exit(0)"))).correct


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nprint(sum(map(int, sys.stdin.buffer.read().split())))",
        "print(sum(map(int, open(0).read().split())))",
        "import sys\nsys.stdout.buffer.write(b'%d' % sum(map(int, sys.stdin)))",
        "stdout.write(str(reduce(add, map(int, stdin))))",  # what LiveCodeBench imports for all
        "def f(n): return n and int(input()) + f(n - 1)\nprint(f(40_000))",
    ],
)
async def test_standard_streams_as_bytes_and_as_files(sandbox: Sandbox, code: str) -> None:
    cases = [{"input": "1\n" * 40_000, "output": "40000"}]  # more than a pipe holds
    assert (await scored(sandbox, {"cases": cases}, block(code))).correct


async def test_what_is_expected_stays_outside() -> None:
    """A program that reads its own source finds no expected output."""
    seen: list[str] = []

    class Keeping:
        async def run(self, code: str, limits: object = None) -> SandboxResult:
            seen.append(code)
            return SandboxResult("", "ok", 0.0)

        async def talk(self, asker: str, answerer: str, limits: object = None) -> Any:
            seen.append(answerer)
            return TalkResult(None, "ok", "", 0.0)

    target = {"cases": [{"input": "in-4711", "output": "out-4711"}]}
    await Code().score(target, Submission(None, "print(1)"), ScoringResources(sandbox=Keeping()))
    assert "in-4711" in seen[0] and "out-4711" not in seen[0]
    assert digest_of_output("out-4711") not in seen[0]
    tests = {"tests": "assert f(1) == 'out-4711'", "entry_point": "f"}
    await Code().score(
        tests, Submission(None, "def f(x): return 1"), ScoringResources(sandbox=Keeping())
    )
    assert "def f" in seen[1] and "out-4711" not in seen[1]


async def test_the_answer_must_come_by_its_mark(sandbox: Sandbox) -> None:
    """A program that prints the digest of the correct answer has not given the answer."""
    digest = digest_of_output("3")
    for code in (f"import os\nos.write(1, b'{digest}\\n')\nos._exit(0)", f"print('{digest}')"):
        target = {"cases": [{"input": "1 2", "output": "3"}]}
        assert not (await scored(sandbox, target, block(code))).correct


async def test_names_of_the_starter_code_are_given(sandbox: Sandbox) -> None:
    """The code uses ``List[int]`` without an import; LiveCodeBench's program imports it."""
    code = "class Solution:\n    def top(self, x: List[int], k: int) -> Optional[int]:\n"
    code += "        heapify(x)\n        return next(islice(nlargest(k, x), k - 1, None))"
    target = {"cases": [{"input": "[3, 5, 4]\n2", "output": "4"}], "entry_point": "top"}
    assert (await scored(sandbox, target, block(code))).correct


async def test_a_function_by_json_lines(sandbox: Sandbox) -> None:
    cases = [{"input": '[1, 2]\n"x"', "output": '[1, 2, "x"]'}]
    target = {"cases": cases, "entry_point": "join"}
    method = "class Solution:\n    def join(self, a, b): return (*a, b)"
    assert (await scored(sandbox, target, block(method))).correct
    assert (await scored(sandbox, target, block("def join(a, b): return a + [b]"))).correct
    assert not (await scored(sandbox, target, block("def join(a, b): return a"))).correct
    talkative = "def join(a, b):\n    print('x' * 9000)\n    return a + [b]"
    assert (await scored(sandbox, target, block(talkative))).correct


async def test_a_function_with_the_name_of_a_module(sandbox: Sandbox) -> None:
    target = {"tests": "assert calendar(3) == 4", "entry_point": "calendar"}
    assert (await scored(sandbox, target, block("def calendar(x): return x + 1"))).correct


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("1\n2", "1  \n2\n\n", True),
        ("0.50", "0.5", True),
        ("-0", "0", True),
        ("1 2", "1\n2", False),
        ("1e999999999", "1e999999999", True),
        ("abc", "abd", False),
    ],
)
def test_outputs(one: str, other: str, alike: bool) -> None:
    assert (digest_of_output(one) == digest_of_output(other)) is alike


async def test_without_a_sandbox_it_is_an_error() -> None:
    class Broken:
        async def run(self, code: str, limits: object = None) -> Any:
            raise SandboxUnavailable("no level")

        async def talk(self, asker: str, answerer: str, limits: object = None) -> Any:
            raise SandboxUnavailable("no level")

    for means in (ScoringResources(), ScoringResources(sandbox=Broken())):
        with pytest.raises(ScorerFailed):
            await Code().score(HUMANEVAL, Submission(None, "x = 1"), means)
    with pytest.raises(ScorerFailed):
        target: dict[str, Any] = {"cases": []}
        await Code().score(target, Submission(None, "x = 1"), ScoringResources(sandbox=Broken()))
