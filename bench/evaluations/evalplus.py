"""HumanEval+ and MBPP+: the scorer `code` with EvalPlus's inputs beside EvalPlus's own check.

In: the Python that has evalplus, and the folder with ``HumanEvalPlus-Mini.jsonl`` or
``MbppPlus.jsonl``. Out: the agreement over every reference solution, and over it with one operator
changed.
"""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

from bench.evaluations.agreement import Agreement, official
from tutti.tasks.benchmarks import Source, Task, benchmark_named
from tutti.tasks.sandbox import Sandbox, level_for_models
from tutti.tasks.scoring import SCORERS, ScoringResources, Submission

CHANGES = ((r" < ", " <= "), (r"\+ 1", "+ 2"), (r"==", "!="), (r"return ", "return None and "))


def humaneval(python: str, data: Path) -> Agreement:
    """HumanEval+ with the mini inputs."""
    return _compared(python, data, "humaneval-plus", "mini")


def mbpp(python: str, data: Path) -> Agreement:
    """MBPP+."""
    return _compared(python, data, "mbpp-plus", "test")


def _compared(python: str, data: Path, name: str, split: str) -> Agreement:
    """The solutions of every task in the split of the benchmark `name`."""
    benchmark = benchmark_named(name)
    (file,) = benchmark.splits[split]
    asked, ours = [], []
    sandbox = Sandbox(level_for_models())
    for task in benchmark.load(Source(data, split), []):
        for kind, code in _solutions(task):
            asked.append({"id": task.key, "code": code})
            ours.append((kind, task, asyncio.run(_score(task, code, sandbox))))
    found, said = Agreement(), official(python, "evalplus.py", [str(data / file)], asked)
    for verdict, (kind, task, score) in zip(said, ours, strict=True):
        found.add(kind, score, verdict["correct"], f"{task.key} ({verdict['why']})")
    return found


def _solutions(task: Task) -> Iterator[tuple[str, str]]:
    gold, prompt = task.target["answer"], task.target.get("prompt", "")
    yield "gold", gold
    body = gold.removeprefix(prompt)
    changed = (re.sub(old, new, body, count=1) for old, new in CHANGES)
    code = next((each for each in changed if each != body), None)
    if code is not None:
        yield "changed", prompt + code


async def _score(task: Task, code: str, sandbox: Sandbox) -> bool:
    answer = f"```python\n{code}\n```"
    submission = Submission(answer, answer)
    score = await SCORERS["code"].score(task.target, submission, ScoringResources(sandbox))
    return bool(score.correct)
