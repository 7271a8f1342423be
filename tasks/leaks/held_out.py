"""The texts that are held out: those of tasks in the store, and of a user's own files.

In: a store. Out: texts. Files in `TUTTI_HOME/held_out` are for benchmarks that were never measured
here: JSONL, with a text field or messages in each row.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tutti.errors import UsageError
from tutti.storage import Home

FOLDER = "held_out"
MESSAGES = "messages"
TEXT_FIELDS = "text contents content question problem prompt instruction input".split()
FEWEST = 5
"""Fewest texts of a set, and fewest words of a text without its frame."""
SENTENCE = re.compile(r"(?<=[.!?:])\s+|\s+(?=[.!?:])|\n+")
"""Between two sentences, forwards or backwards."""


def own_texts(home: Home) -> list[str]:
    """Return the texts of a user's own files. Raises UsageError for a row without one."""
    files = sorted((home.root / FOLDER).glob("*.jsonl"))
    return [text for file in files for text in without_frame([*texts_of_lines(file)])]


def texts_of_sets(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The questions of rows of `tasks`, without the benchmark's prompt: the sentences that all of a
    task set begin or end with."""
    sets = defaultdict(list)
    for row in rows:
        if row["question"]:
            sets[row.get("task_set_id")].append(row["question"])
    return [text for each in sets.values() for text in without_frame(each)]


def without_frame(texts: list[str]) -> list[str]:
    """Texts of one set without the sentences that all begin or end with; unchanged where little
    else would be left."""
    once = set(texts)
    if len(once) < FEWEST:
        return texts
    start, end = _shared(once), _shared({text[::-1] for text in once})
    cut = [text[start : len(text) - end] for text in texts]
    sides = zip(cut, texts, strict=True)
    return [least if len(least.split()) >= FEWEST else text for least, text in sides]


def _shared(texts: set[str]) -> int:
    """Return the length of the whole sentences with which all begin."""
    first, last = min(texts), max(texts)
    pairs = enumerate(zip(first, last, strict=False))
    same = next((n for n, (one, other) in pairs if one != other), len(first))
    return max((each.end() for each in SENTENCE.finditer(first, 0, same)), default=0)


def texts_of_lines(file: Path) -> Iterator[str]:
    """The texts of a JSONL file's rows: those of its messages, or its first text field. Raises
    UsageError."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UsageError(f"{file}:{number}: not JSON: {error}") from error
            yield from _texts_of(row, f"{file}:{number}")


def _texts_of(row: Any, where: str) -> Iterator[str]:
    if not isinstance(row, dict):
        raise UsageError(f"{where}: not an object")
    if isinstance(row.get(MESSAGES), list):
        return said_in(row[MESSAGES])
    text = next((row[each] for each in TEXT_FIELDS if isinstance(row.get(each), str)), None)
    if text is None:
        wanted = ", ".join((MESSAGES, *TEXT_FIELDS))
        raise UsageError(f"{where}: none of {wanted}; it has {', '.join(map(str, row))}")
    return iter([text])


def said_in(messages: Iterable[Any]) -> Iterator[str]:
    """The texts of messages of all roles; of content in parts, those of its text parts."""
    for message in messages:
        content = message.get("content") if isinstance(message, Mapping) else None
        for part in content if isinstance(content, list) else [content]:
            text = part.get("text") if isinstance(part, Mapping) else part
            if isinstance(text, str):
                yield text
