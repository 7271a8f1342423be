"""Arena-Hard: open questions whose answers a judge compares with a baseline model's.

The folder is the publisher's: ``question.jsonl`` and ``model_answer/MODEL.jsonl`` of the
baselines.
"""

from collections.abc import Iterator

from tutti.tasks.benchmarks.errors import BadRow
from tutti.tasks.benchmarks.rows import Row, read_rows
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.task_sets import Task

BASELINES = {
    "hard_prompt": "o3-mini-2025-01-31",
    "creative_writing": "gemini-2.0-flash-001",
}


def read(files: Files) -> Iterator[Task]:
    """Yield one task per row with ``uid``, ``category`` and ``prompt``; the baseline's answer has
    the same ``uid``."""
    known: dict[str, dict[str, str]] = {}
    for row in files.rows():
        category = row.text("category")
        if category not in BASELINES:
            row.bad("category", f"{category!r} is none of {', '.join(BASELINES)}")
        baseline, name = BASELINES[category], row.name("uid")
        if baseline not in known:
            known[baseline] = _answers(files, baseline)
        if name not in known[baseline]:
            row.bad("uid", f"{baseline} has no answer to {name}")
        question = row.text("prompt")
        yield Task(
            key=name,
            inputs={"question": question},
            target={"question": question, "baseline": known[baseline][name]},
            attributes={"category": category, "subject": row.text_or("", "subcategory")},
        )


def _answers(files: Files, model: str) -> dict[str, str]:
    path = files.root / "model_answer" / f"{model}.jsonl"
    if not path.is_file():
        raise BadRow(path, None, "", "the baseline's answers are missing")
    return {row.name("uid"): _answer(row) for row in read_rows(path)}


def _answer(row: Row) -> str:
    """The last message's text, which is an object with ``answer`` in the publisher's files."""
    last = row.objects("messages")[-1]
    return (
        last.text("content")
        if isinstance(last.data.get("content"), str)
        else (last.object("content").text("answer"))
    )
