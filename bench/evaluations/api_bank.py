"""API-Bank: `api_bank`, `api_bank_recorded` and `rouge_l` beside the publisher's evaluator.

In: the Python that has the package ``rouge``, and a checkout of ``api-bank``. Out: the agreement.
Calls of four APIs are left out, whose gold results need an embedding model or a network.
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.evaluations.agreement import Agreement, official
from bench.evaluations.perturb import KINDS, perturbed
from tutti.tasks.benchmarks import Source, Task, benchmark_named
from tutti.tasks.scoring import SCORERS, Score, ScoringResources, Submission

LEFT_OUT = ("ToolSearcher", "Dictionary", "Translate", "SearchEngine")
Case = tuple[str, Task, list[dict[str, Any]], dict[str, Any]]
"""The kind of an answer, its task, the calls, and what the official program is asked."""
FOLDERS = {1: "level-1-given-desc", 2: "level-2-toolsearcher"}


def calls(
    python: str, checkout: Path, every: int = 1, scorer: str = "api_bank_recorded"
) -> Agreement:
    """Every gold call of levels 1 and 2, or one in `every`, and its perturbations."""
    asked, ours = [], []
    for kind, task, made, one in _cases(checkout, every):
        asked.append(one)
        ours.append((kind, task, _score(task, made, scorer)))
    found, said = Agreement(), official(python, "api_bank.py", [str(checkout)], asked)
    for one, verdict, (kind, task, score) in zip(asked, said, ours, strict=True):
        what = f"{task.key} {one['text'][:160]} ({verdict['why'][:100]})"
        found.add(kind, score, verdict["correct"], what)
    return found


def _cases(checkout: Path, every: int) -> Iterator[Case]:
    for level in FOLDERS:
        for task in _tasks(f"api-bank-{level}", checkout)[::every]:
            for kind in KINDS if task.attributes["api"] not in LEFT_OUT else ():
                made = perturbed(task.target["calls"], kind, task.key)
                text = " ".join(map(_written, made))
                yield kind, task, made, _place(task, level) | {"text": text, "kind": kind}


def executed(python: str, checkout: Path, every: int = 1) -> Agreement:
    """As `calls`, by the scorer that executes them with the same Python and checkout."""
    os.environ |= {"TUTTI_HARNESS_API_BANK": python, "TUTTI_API_BANK": str(checkout)}
    return calls(python, checkout, every, "api_bank")


def errors(python: str, checkout: Path, every: int = 1) -> Agreement:
    """The kind of error of every call that `executed` makes, beside `evaluator_by_json.py`. Calls
    at which that program stops are left out."""
    os.environ |= {"TUTTI_HARNESS_API_BANK": python, "TUTTI_API_BANK": str(checkout)}
    asked, ours = [], []
    for _, task, made, one in _cases(checkout, every):
        error = asyncio.run(_scored(task, made, "api_bank")).detail["error"]
        if error != "OTHER":
            asked.append(one)
            ours.append(error)
    found, said = Agreement(), official(python, "api_bank_errors.py", [str(checkout)], asked)
    for one, its, mine in zip(asked, said, ours, strict=True):
        found.add(str(its["error"]), mine, its["error"], f"{one['file']} {one['text'][:160]}")
    return found


def replies(python: str, checkout: Path) -> Agreement:
    """ROUGE-L of the gold reply, of a part of it, and of it in lower case."""
    asked, ours = [], []
    for level in FOLDERS:
        for task in _tasks(f"api-bank-{level}-response", checkout):
            gold = task.target["response"]
            words = gold.split()
            texts = {
                "gold": gold,
                "half": " ".join(words[: len(words) // 2 + 1]),
                "lower": gold.lower(),
                "turned": " ".join(reversed(words)),
                "other": f"Sure. {gold} Is there more? I can help with the {words[0]}.",
                "none": "",
            }
            for kind, text in texts.items():
                asked.append(_place(task, level) | {"text": text})
                score = SCORERS["rouge_l"].score(
                    task.target, Submission(text, text), ScoringResources()
                )
                ours.append((kind, task, asyncio.run(_value(score))))
    found, said = Agreement(), official(python, "api_bank.py", [str(checkout)], asked)
    for verdict, (kind, task, value) in zip(said, ours, strict=True):
        found.add(kind, value, verdict["score"], task.key)
    return found


async def _value(score: Any) -> float:
    return float((await score).value)


def _tasks(name: str, checkout: Path) -> list[Task]:
    return list(benchmark_named(name).load(Source(checkout), []))


def _place(task: Task, level: int) -> dict[str, Any]:
    name, _, line = task.key.rpartition("#")
    return {"file": f"lv1-lv2-samples/{FOLDERS[level]}/{name}.jsonl", "line": int(line)}


def _written(call: dict[str, Any]) -> str:
    """A call as the publisher's prompts ask for it."""
    inside = ", ".join(f"{name}='{value}'" for name, value in call["arguments"].items())
    return f"[{call['name']}({inside})]"


def _score(task: Task, made: list[dict[str, Any]], scorer: str) -> bool:
    return bool(asyncio.run(_scored(task, made, scorer)).correct)


async def _scored(task: Task, made: list[dict[str, Any]], scorer: str) -> Score:
    message = {"role": "assistant", "content": None, "tool_calls": made}
    attempt = Submission(None, "", [message])
    return await SCORERS[scorer].score(task.target, attempt, ScoringResources())
