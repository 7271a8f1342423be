"""IFEval: our checks beside those of lm-eval.

In: the Python that has lm-eval, and the folder of IFEval's data. Out: the agreement, an instruction
at a time, strictly and loosely, over made-up responses to every prompt.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.evaluations.agreement import Agreement, official
from tutti.tasks.benchmarks import Source, Task, benchmark_named
from tutti.tasks.scoring import SCORERS, Score, ScoringResources, Submission

FORMS = (
    "<<A title>>\n\n# Section 1\n\n* first point\n* second point\n\nSECTION 2\n\n"
    "*one* *two* *three*\n\nP.S. [name] [place] [date] is all.\n\n***\n\n"
    "P.P.S. Is there anything else I can help with?"
)


def checks(python: str, data: Path) -> Agreement:
    """Every prompt with each response."""
    tasks = list(benchmark_named("ifeval").load(Source(data), []))
    rows = [json.loads(line) for line in _file(data).read_text("utf-8").splitlines()]
    asked, ours = [], []
    for place, (task, row) in enumerate(zip(tasks, rows, strict=True)):
        for kind, text in _responses(task, tasks[place - 1]):
            asked.append({"row": row, "response": text})
            ours.append((kind, task, asyncio.run(_score(task, text))))
    found, said = Agreement(), official(python, "ifeval.py", [], asked)
    for verdict, (kind, task, score) in zip(said, ours, strict=True):
        for rule in ("strict", "loose"):
            for name, mine, its in zip(
                task.target["instruction_id_list"], score.detail[rule], verdict[rule], strict=True
            ):
                found.add(f"{kind}/{rule}", bool(mine), bool(its), f"{task.key} {name}")
    return found


def _file(data: Path) -> Path:
    return data if data.is_file() else data / "input_data.jsonl"


def _responses(task: Task, other: Task) -> Iterator[tuple[str, str]]:
    prompt, its = task.inputs["question"], other.inputs["question"]
    yield "prompt", f"{prompt}\n\n{its}"
    yield "lower", its.lower()
    yield "upper", its.upper()
    yield "forms", f"{FORMS}\n{its}"
    yield "quoted", f'"{its}\n\n{prompt}"'
    yield "json", json.dumps({"answer": its})
    yield "none", ""


async def _score(task: Task, text: str) -> Score:
    scorer = SCORERS["ifeval"]
    submission: Any = Submission(text, text)
    return await scorer.score(task.target, submission, ScoringResources())
