"""BFCL: `bfcl_ast` beside the publisher's check.

In: the Python that has ``bfcl-eval``, and the folder of its data. Out: the agreement over every
task of the single-turn categories, gold and perturbed. In the answers BFCL's dots in names are
underscores, as for OpenAI's models.
"""

import asyncio
from pathlib import Path
from typing import Any

from bench.evaluations.agreement import Agreement, official
from bench.evaluations.perturb import KINDS, perturbed
from tutti.tasks.benchmarks import Source, Task, benchmark_named
from tutti.tasks.scoring import SCORERS, ScoringResources, Submission

SHAPES = ("multiple", "parallel", "parallel_multiple")
CATEGORIES = ("simple_python", *SHAPES, "live_simple", *(f"live_{name}" for name in SHAPES))


def calls(python: str, data: Path) -> Agreement:
    """Every task of the categories."""
    found = Agreement()
    for category in CATEGORIES:
        tasks = list(benchmark_named("bfcl").load(Source(data, category), []))
        _compare(found, python, category, tasks)
    return found


def _compare(found: Agreement, python: str, category: str, tasks: list[Task]) -> None:
    asked, ours = [], []
    for task in tasks:
        for kind in KINDS:
            made = perturbed([gold_call(call) for call in task.target["calls"]], kind, task.key)
            shown = [{call["name"]: call["arguments"]} for call in made]
            asked.append({"id": task.key, "calls": shown})
            ours.append((kind, task, asyncio.run(score(task, made))))
    said = official(python, "bfcl.py", [category], asked)
    for one, verdict, (kind, task, mine) in zip(asked, said, ours, strict=True):
        what = f"{task.key} {str(one['calls'])[:200]} ({verdict['why'][:100]})"
        found.add(kind, mine, verdict["correct"], what)


def gold_call(call: dict[str, Any]) -> dict[str, Any]:
    """A call that a target accepts: its first values, without what may be left out."""
    must = {name: values for name, values in call["accepted"].items() if values}
    chosen = {name: values[0] for name, values in must.items() if name not in call["optional"]}
    return {"name": call["name"], "arguments": chosen}


async def score(task: Task, made: list[dict[str, Any]]) -> bool:
    """Our verdict on calls."""
    message = {"role": "assistant", "content": None, "tool_calls": made}
    attempt = Submission(None, "", [message])
    found = await SCORERS["bfcl_ast"].score(task.target, attempt, ScoringResources())
    return bool(found.correct)
