"""MMLU (14,042 questions of 57 subjects), MMLU-Redux (5,700 of them, checked by people) and MMMLU
(MMLU in 14 languages).

MMLU-Redux as published holds the faulty questions, too, each with its fault. Here a question
without fault counts, and one whose key was wrong counts with the corrected key where the data name
one; all others are left out, by their fault. ``mmlu-redux`` of the publisher's own table keeps
all: select by the attribute ``error_type`` to compare.
"""

from collections.abc import Iterator

from tutti.tasks.benchmarks.benchmark import Benchmark
from tutti.tasks.benchmarks.questions.choices import LETTERS, options_text, place_of
from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files, Hub
from tutti.tasks.task_sets import ExcludedRow, Task

SOUND, WRONG_KEY = "ok", "wrong_groundtruth"
LOST_KEY = "correct_answer"  # NeMo-Skills writes the field's name where it means its value


def read(files: Files) -> Iterator[Task]:
    """One task a row with ``question``, ``subject``, ``choices`` and ``answer`` (a place
    or a letter)."""
    for number, row in enumerate(files.published()):
        options = row.texts("choices")
        gold = _place(row, len(options))
        attributes = {"subject": row.text("subject")}
        yield _task(str(number), row.text("question"), options, gold, attributes)


def read_redux(files: Files) -> Iterator[Task | ExcludedRow]:
    """As `read`, with ``error_type`` and ``correct_answer``; the folder is the subject."""
    for number, row in enumerate(files.published()):
        options = row.texts("choices")
        fault = row.text_or(SOUND, "error_type")
        subject = row.text_or("", "subject") or row.file.parent.name
        name = f"{subject}-{number}"
        if row.data.get("answer") == LOST_KEY:
            yield ExcludedRow(name, "NeMo-Skills' file lost its corrected key")
            continue
        gold = _place(row, len(options))
        corrected = _corrected(row, options) if fault == WRONG_KEY else None
        if fault == SOUND or corrected is not None:
            right = gold if corrected is None else corrected
            attributes = {"subject": subject, "error_type": fault}
            yield _task(name, row.text("question"), options, right, attributes)
        else:
            yield ExcludedRow(name, f"its publisher found a fault: {fault}")


def read_mmmlu(files: Files) -> Iterator[Task]:
    """One task a row with ``Question``, ``A`` to ``D``, ``Answer`` (a letter) and ``Subject``; the
    file's name ends in the language (``mmlu_DE-DE.csv``)."""
    for number, row in enumerate(files.rows()):
        options = [row.name(letter) for letter in LETTERS[:4]]
        letter = row.text("Answer").strip()
        if letter not in tuple(LETTERS[:4]):
            row.bad("Answer", f"{letter!r} is none of A, B, C, D")
        language = row.file.stem.removeprefix("mmlu_")
        attributes = {"subject": row.text("Subject"), "language": language}
        name = f"{language}-{number}"
        yield _task(name, row.text("Question"), options, LETTERS.index(letter), attributes)


def _task(
    name: str, question: str, options: list[str], gold: int, attributes: dict[str, str]
) -> Task:
    fields = {"question": question, "choices": options_text(options)}
    target = {"answer": LETTERS[gold], "choices": options}
    return Task(name, fields, target, attributes | {"gold_position": str(gold)})


def _place(row: Row, count: int) -> int:
    if isinstance(row.value("answer"), str):
        return place_of(row, "answer", count)
    place = row.whole("answer")
    if not 0 <= place < count:
        row.bad("answer", f"{place} is no place of {count} choices")
    return place


def _corrected(row: Row, options: list[str]) -> int | None:
    """The place that people gave instead: a number, a letter or a choice's text; None where they
    wrote something else."""
    if not row.name_of("correct_answer"):
        return None
    said = row.name("correct_answer").strip()
    letters = LETTERS[: len(options)]
    if said.isascii() and said.isdigit() and int(said) < len(options):
        return int(said)
    if len(said) == 1 and said.upper() in letters:
        return letters.index(said.upper())
    return options.index(said) if options.count(said) == 1 else None


MMLU = Benchmark(
    name="mmlu",
    read=read,
    splits={
        "test": ("all/test-*.parquet", "test-*.parquet", "test.jsonl"),
        "validation": (
            "all/validation-*.parquet",
            "validation-*.parquet",
            "validation.jsonl",
            "val.jsonl",
        ),
        "dev": ("all/dev-*.parquet", "dev-*.parquet", "dev.jsonl"),
    },
    scorer="choice",
    prompt="choice",
    hub=Hub("cais/mmlu", "c30699e8356da336a370243923dbaf21066bb9fe"),
    licence="MIT; Hendrycks et al. 2021, arXiv 2009.03300",
)
MMLU_REDUX = Benchmark(
    name="mmlu-redux",
    read=read_redux,
    splits={"test": ("*/data-*.arrow", "*/test-*.parquet", "*/*.jsonl", "*.jsonl")},
    scorer="choice",
    prompt="choice",
    hub=Hub("edinburgh-dawg/mmlu-redux-2.0", "372ea425445d51e1ba1188c56e5e893f8138621f"),
    licence="CC BY 4.0; Gema et al. 2025, arXiv 2406.04127",
)
MMMLU = Benchmark(
    name="mmmlu",
    read=read_mmmlu,
    splits={"test": ("test/mmlu_*.csv", "mmlu_*.csv")},
    scorer="choice",
    prompt="choice",
    hub=Hub("openai/MMMLU", "325a01dc3e173cac1578df94120499aaca2e2504"),
    licence="MIT; OpenAI 2024, after Hendrycks et al. 2021, arXiv 2009.03300",
)
