"""Humanity's Last Exam: about 2,500 questions, some with an image.

``hle`` reads the text-only questions and reports the number left out; ``hle-images`` reads all.
"""

from collections.abc import Iterator

from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.task_sets import IMAGE, ExcludedRow, Task

IMAGE_STARTS = ("data:image/", "https://", "http://")


def read(files: Files, images: bool) -> Iterator[Task | ExcludedRow]:
    """Yield one task per row with ``id``, ``question``, ``answer``, ``answer_type``, ``image``."""
    for row in files.published():
        image = _image(row)
        item_id = row.name("id")
        if image and not images:
            yield ExcludedRow(item_id, "the question has an image (hle-images keeps it)")
            continue
        question, answer = row.text("question", "problem"), row.name("answer")
        kind = row.text_or("", "answer_type")
        yield Task(
            key=item_id,
            inputs={"question": question} | ({IMAGE: image} if image else {}),
            target={"answer": answer, "question": question, "answer_type": kind},
            attributes={
                "answer_type": kind,
                "subject": row.text_or("", "category"),
                "raw_subject": row.text_or("", "raw_subject"),
                "image": "yes" if image else "no",
            },
        )


def _image(row: Row) -> str:
    image = row.text_or("", "image").strip()
    if image and not image.startswith(IMAGE_STARTS):
        row.bad("image", "is neither a data URL nor a web address")
    return image
