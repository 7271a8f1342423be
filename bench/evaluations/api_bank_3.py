"""API-Bank's level 3: `api_bank_3_words`, `api_bank_recorded` and `rouge_l` beside the publisher's
`lv3_evaluator.py`.

In: the Python that has the package ``rouge``, and a checkout of ``api-bank`` with its
``test-data/level-3.json``. Out: the agreement. Searches for tools have the same substitute of the
embedding model on both sides.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

from bench.evaluations.agreement import Agreement, official
from bench.evaluations.perturb import KINDS, perturbed
from tutti.tasks.benchmarks import Source, Task, benchmark_named
from tutti.tasks.scoring import SCORERS, Score, ScoringResources, Submission

PROGRAM = "api_bank_3.py"


def calls(
    python: str, checkout: Path, every: int = 1, scorer: str = "api_bank_3_words"
) -> Agreement:
    """The calls of every sample, or of one in `every`, and their perturbations."""
    os.environ |= {"TUTTI_HARNESS_API_BANK": python, "TUTTI_API_BANK": str(checkout)}
    tasks = _tasks("api-bank-3-call", checkout)
    tasks = [task for task in tasks if int(task.attributes["sample"]) % every == 0]
    asked, ours = [], []
    for kind in KINDS:
        for task in tasks:
            made = perturbed(task.target["calls"], kind, task.key)
            sample, _, call = task.key.partition("#")
            text = " ".join(map(_written, made))
            one: dict[str, Any] = {"kind": kind, "pred": f"API-Request: {text}"}
            asked.append(one | {"sample_id": int(sample), "api_id": int(call)})
            ours.append((kind, task, asyncio.run(_scored(task, made, scorer))))
    found, said = Agreement(), official(python, PROGRAM, _given(checkout), asked)
    for one, verdict, (kind, task, score) in zip(asked, said, ours, strict=True):
        what = f"{task.key} {one['pred'][13:160]} ({verdict['why'][:100]})"
        found.add(kind, bool(score.correct), verdict["correct"], what)
    return found


def recorded(python: str, checkout: Path) -> Agreement:
    """As `calls`, by arguments and recorded results."""
    return calls(python, checkout, scorer="api_bank_recorded")


def replies(python: str, checkout: Path) -> Agreement:
    """ROUGE-L of the gold reply, of a part of it, and of it in lower case."""
    asked, ours = [], []
    for task in _tasks("api-bank-3-response", checkout):
        gold = task.target["response"]
        words = gold.split()
        texts = {
            "gold": gold,
            "half": " ".join(words[: len(words) // 2 + 1]),
            "lower": gold.lower(),
            "turned": " ".join(reversed(words)),
            "none": "",
        }
        for kind, text in texts.items():
            asked.append({"output": gold, "pred": text})
            score = SCORERS["rouge_l"].score(
                task.target, Submission(text, text), ScoringResources()
            )
            ours.append((kind, task, asyncio.run(_value(score))))
    found, said = Agreement(), official(python, PROGRAM, _given(checkout), asked)
    for verdict, (kind, task, value) in zip(said, ours, strict=True):
        found.add(kind, value, verdict["score"], task.key)
    return found


def _given(checkout: Path) -> list[str]:
    bank = checkout.absolute()
    return [str(bank), str(bank / "test-data" / "level-3.json")]


async def _value(score: Any) -> float:
    return float((await score).value)


def _tasks(name: str, checkout: Path) -> list[Task]:
    return list(benchmark_named(name).load(Source(checkout), []))


def _written(call: dict[str, Any]) -> str:
    """A call as the publisher's prompts ask for it."""
    inside = ", ".join(f"{name}='{value}'" for name, value in call["arguments"].items())
    return f"[{call['name']}({inside})]"


async def _scored(task: Task, made: list[dict[str, Any]], scorer: str) -> Score:
    message = {"role": "assistant", "content": None, "tool_calls": made}
    attempt = Submission(None, "", [message])
    return await SCORERS[scorer].score(task.target, attempt, ScoringResources())
