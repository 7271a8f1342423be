"""BigCodeBench: the scorer `bigcodebench` beside the publisher's `sanitize` and `untrusted_check`.

In: the Python that has ``bigcodebench``, and the folder with ``BigCodeBench.jsonl`` (`made` has ten
tasks made up in its format). `TUTTI_CODE_PYTHON` must name a Python with the tasks' libraries. Out:
the agreement of verdicts, over the canonical solutions in several forms and changed ones; and of
the code that is kept of a reply.
"""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bench.evaluations.agreement import Agreement, official
from tutti.tasks.benchmarks import Source, Task, benchmark_named
from tutti.tasks.sandbox import CODE_PYTHON, Sandbox, level_for_models
from tutti.tasks.scoring import Score, ScoringResources, Submission
from tutti.tasks.scoring.published.bigcodebench import LIMITS, BigCodeBench

OFFICIAL_S, OUR_S = 3.0, 8.0  # its program ends a process two seconds after its time limit
FILE = "BigCodeBench.jsonl"
BODIES = {
    "wrong": "return None",
    "crash": "raise RuntimeError(args)",
    "exit": "import sys\n    sys.exit(0)",
    "quit": "quit()",
    "interrupt": "raise KeyboardInterrupt",
    "recursion": "return task_func(*args)",
    "memory": "return len(bytearray(2**38))",
}
ENDED = {
    "os_exit": "import os\n    os._exit(0)",
    "kill": "import os\n    os.kill(os.getpid(), 9)",
}
SLOW = {"spin": "while True: pass", "sleep": "import time\n    time.sleep(600)"}
_STATE = "import sys\n    frame = sys._getframe()\n    while 'stat' not in frame.f_locals:\n"
_STATE += "        frame = frame.f_back\n    frame.f_locals['stat'].value = 0\n"
CALLED = {
    "skip": "import unittest\n    raise unittest.SkipTest('x')",
    "result": "import unittest\n    unittest.TestResult.addError = lambda *a: None\n"
    "    unittest.TestResult.addFailure = lambda *a: None\n    raise ValueError",
    "methods": "import sys\n    c = sys.modules['__test__'].TestCases\n"
    "    for n in dir(c):\n        n.startswith('test') and setattr(c, n, lambda *a: None)\n"
    "    raise __import__('unittest').SkipTest('x')",
    "state": _STATE + "    import os\n    os._exit(0)",
    "printed": "import os\n    print('OK')\n    os.write(1, b'OK')\n    os._exit(0)",
    "fork": "import os\n    if os.fork(): os._exit(0)\n    return None",
}
"""Cheats, done when the solution is first called."""
IMPORTED = {
    "assertions": "import unittest, numpy.testing as t, contextlib\n"
    "    for name in dir(unittest.TestCase):\n"
    "        if name.startswith('assert'):\n"
    "            setattr(unittest.TestCase, name, lambda *a, **k: contextlib.nullcontext())\n"
    "    t.assert_allclose = t.assert_array_equal = lambda *a: None",
    "run": "import unittest\n    unittest.TestCase.run = lambda *a: None",
    "suite": "import unittest\n    unittest.TestSuite.run = lambda self, result: result",
    "loader": "import unittest\n    unittest.TestLoader.getTestCaseNames = lambda *a: []",
}
"""Cheats, done when its module is read."""


def verdicts(python: str, data: Path) -> Agreement:
    """The verdict on every reply, and the code that is kept of it."""
    if CODE_PYTHON not in os.environ:
        raise RuntimeError(f"{CODE_PYTHON} names no Python with the tasks' libraries")
    tasks = list(benchmark_named("bigcodebench").load(Source(data), []))
    replies = [(task, *reply) for place, task in enumerate(tasks) for reply in _all(task, place)]
    asked = [{"id": task.key, "text": text} for task, _, _, text in replies]
    said = official(python, "bigcodebench.py", [str(data / FILE), str(OFFICIAL_S)], asked)
    sandbox, found = Sandbox(level_for_models()), Agreement()
    for verdict, (task, kind, name, text) in zip(said, replies, strict=True):
        score = asyncio.run(_score(task, text, sandbox))
        what = f"{task.key} {name} ({verdict['why']}; {score.detail})"
        found.add(kind, score.correct, verdict["correct"], what)
        if score.answer is not None:
            kept = score.answer.strip() == verdict["code"].strip()
            found.add(
                "code", kept, True, f"{task.key} {name}: {score.answer!r} {verdict['code']!r}"
            )
    return found


def _all(task: Task, place: int) -> Iterator[tuple[str, str, str]]:
    """The kind, a name and the text of every reply."""
    gold = str(task.target["answer"])
    for name, text in _forms(gold).items():
        yield "gold", name, text
    head = gold[: gold.index("def task_func")]
    for name, body in BODIES.items():
        yield "changed", name, _reply(head, body)
    for kind, bodies in (("ended", ENDED), ("slow", SLOW)):  # they take seconds: one a task
        name = list(bodies)[place % len(bodies)]
        yield kind, name, _reply(head, bodies[name])
    for name, body in CALLED.items():
        yield "cheat", name, _reply(head, body)
    for name, body in IMPORTED.items():
        yield "cheat", name, _reply(f"{head}class Helper:\n    {body}\n\n", "return Helper")


def _reply(head: str, body: str) -> str:
    return f"```python\n{head}def task_func(*args, **named):\n    {body}\n```"


def _forms(gold: str) -> dict[str, str]:
    """The canonical solution as models write it. Some of these are wrong by the rule."""
    start = gold.index("def task_func")
    head, definition = gold[:start], gold[start:]
    renamed = definition.replace("def task_func", "def inner", 1)
    helper = f"{head}{renamed}\n\ndef task_func(*args, **named):\n    return inner(*args, **named)"
    decorated = helper.replace("def inner", "@staticmethod\ndef inner")
    main = 'if __name__ == "__main__":\n    print(task_func("x"))'
    forms = {
        "no imports": definition,
        "helper": helper,
        "decorated": decorated,
        "main": f"{gold}\n\n{main}\n",
        "call": f"{gold}\nprint(task_func(1, 2))\n",
        "two blocks": f"{gold}```\nFor example:\n```python\nx = 1\nprint(task_func(x))",
        "future": f"from __future__ import annotations\n{gold}",
        "constant": f"{head}LIMIT = 3\n\n{definition}\n    LIMIT\n",
        "one line": helper.replace(":\n    return inner", ": return inner"),
    }
    return {
        "bare": gold,
        "fenced": f"Sure, here is the function:\n\n```python\n{gold}```\n\nIt does what you want.",
        "truncated": gold[: len(gold) * 3 // 4],
        **{name: f"```python\n{code}\n```" for name, code in forms.items()},
    }


async def _score(task: Task, text: str, sandbox: Sandbox) -> Score:
    scorer = BigCodeBench(replace(LIMITS, seconds=OUR_S))
    return await scorer.score(task.target, Submission(text, text), ScoringResources(sandbox))
