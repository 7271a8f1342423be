"""MRCR: long conversations with several identical requests; one answer must be repeated.

The response must begin with the task's random string; its value is the ratio of
`difflib.SequenceMatcher` between the rest and the answer.
"""

from collections.abc import Iterator

from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.task_sets import Task

BINS = (4_096, 8_192, 16_384, 32_768, 65_536, 131_072, 262_144, 524_288, 1_048_576)
CHARS_A_TOKEN = 4  # for the attribute alone: the publisher's bins are by tokens of its own model


def read(files: Files) -> Iterator[Task]:
    """Yield one task per row with ``prompt`` (messages as JSON text), ``answer``,
    ``random_string_to_prepend``, ``n_needles`` and ``desired_msg_index``."""
    for number, row in enumerate(files.published()):
        messages = [dict(message.data) for message in row.objects("prompt")]
        if not messages or messages[-1].get("role") != "user":
            row.bad("prompt", "does not end with a message of the user")
        prefix, answer = row.text("random_string_to_prepend"), row.text("answer")
        if not answer.startswith(prefix):
            row.bad("answer", "does not begin with random_string_to_prepend")
        chars = sum(len(str(message.get("content", ""))) for message in messages)
        yield Task(
            key=str(number),
            inputs={"question": str(messages[-1].get("content", ""))},
            target={"answer": answer, "prefix": prefix},
            attributes={"needles": str(row.whole("n_needles")), "tokens": _bin(row, chars)},
            given=messages,
        )


def _bin(row: Row, chars: int) -> str:
    """Return the smallest of the publisher's lengths that approximately holds the prompt."""
    size = chars // CHARS_A_TOKEN
    return str(next((limit for limit in BINS if size <= limit), BINS[-1]))
