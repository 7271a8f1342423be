"""Multiple choice: MMLU and its relatives, GPQA and SuperGPQA as tasks of the scorer ``choice``.

The attribute ``gold_position`` shows a preference for one letter in SQL.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from tutti.tasks.benchmarks.prepared import ANSWER as PREPARED
from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.task_sets import ExcludedRow, Task

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
FILLER = "N/A"  # MMLU-Pro pads some questions' options with it; it is not shown to models
SOUND, WRONG_KEY = "ok", "wrong_groundtruth"
LOST_KEY = "correct_answer"  # NeMo-Skills writes the field's name where it means its value
GPQA_ANSWERS = ("Correct Answer", *(f"Incorrect Answer {number}" for number in (1, 2, 3)))
GPQA_ATTRIBUTES = {"subject": "High-level domain", "subdomain": "Subdomain"}
SUPERGPQA_ATTRIBUTES = {"subject": "discipline", "field": "field", "subfield": "subfield"}


def options_text(options: Sequence[str]) -> str:
    """The options in a prompt's format: ``A) first``, one per line."""
    return "\n".join(f"{LETTERS[place]}) {text}" for place, text in enumerate(options))


def place_of(row: Row, name: str, count: int) -> int:
    """Return the index of the letter in field `name`, among `count` options. Raises BadRow."""
    letter = row.text(name).strip()
    if len(letter) != 1 or letter not in LETTERS[:count]:
        row.bad(name, f"{letter!r} is no letter of {count} options")
    return LETTERS.index(letter)


def shuffled(count: int, item_id: str) -> list[int]:
    """Return a permutation of `count` places that depends only on `item_id`: the same on every
    machine, in every version of Python, and for every trial."""
    return sorted(
        range(count), key=lambda place: hashlib.sha256(f"{item_id}|{place}".encode()).digest()
    )


def read_gpqa(files: Files) -> Iterator[Task]:
    """One task per row with ``Question``, ``Correct Answer`` and three incorrect ones, shuffled by
    a hash of the task's id; or, as NeMo-Skills shuffled them, with ``options`` and a letter."""
    for row in files.published():
        if row.name_of("Question") is None and row.name_of(PREPARED):
            question, options = row.text("question").strip(), row.texts("options")
            gold = place_of(row, "answer", len(options))
            key, attributes = _hash(question), {"subdomain": row.text("category")}
        else:
            question = row.text("Question").strip()
            key = row.text("Record ID") if row.name_of("Record ID") else _hash(question)
            answers = [row.name(name).strip() for name in GPQA_ANSWERS]
            order = shuffled(len(answers), key)
            options, gold = [answers[place] for place in order], order.index(0)
            named = GPQA_ATTRIBUTES.items()
            attributes = {name: row.text(column) for name, column in named if row.name_of(column)}
        yield _task(key, question, options, gold, attributes)


def read_mmlu(files: Files) -> Iterator[Task]:
    """Yield one task per row with ``question``, ``subject``, ``choices`` and ``answer`` (an index
    or a letter)."""
    for number, row in enumerate(files.published()):
        options = row.texts("choices")
        gold = _place(row, len(options))
        attributes = {"subject": row.text("subject")}
        yield _task(str(number), row.text("question"), options, gold, attributes)


def read_mmlu_redux(files: Files) -> Iterator[Task | ExcludedRow]:
    """As `read_mmlu`, with ``error_type`` and ``correct_answer``; the folder is the subject."""
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
    """Yield one task per row with ``Question``, ``A`` to ``D``, ``Answer`` (a letter) and
    ``Subject``; the file's name ends in the language (``mmlu_DE-DE.csv``)."""
    for number, row in enumerate(files.rows()):
        options = [row.name(letter) for letter in LETTERS[:4]]
        language = row.file.stem.removeprefix("mmlu_")
        gold = place_of(row, "Answer", len(options))
        attributes = {"subject": row.text("Subject"), "language": language}
        yield _task(f"{language}-{number}", row.text("Question"), options, gold, attributes)


def read_mmlu_pro(files: Files) -> Iterator[Task]:
    """One task per row with ``question``, ``options``, ``answer`` (a letter) and ``category``."""
    ids = ("question_id", "id")
    for number, row in enumerate(files.published()):
        options = row.texts("options")
        gold = place_of(row, "answer", len(options))
        if row.name_of("answer_index") and (index := row.whole("answer_index")) != gold:
            row.bad("answer_index", f"{index} is not the place of {LETTERS[gold]}")
        kept = [place for place, text in enumerate(options) if text != FILLER or place == gold]
        key = row.name(*ids) if row.name_of(*ids) else str(number)
        attributes = {"subject": row.text("category"), "source": row.text_or("", "src")}
        right, shown = kept.index(gold), [options[place] for place in kept]
        yield _task(key, row.text("question"), shown, right, attributes)


def read_supergpqa(files: Files) -> Iterator[Task]:
    """Yield one task per row with ``question``, ``options``, ``answer_letter`` (or the letter as
    ``answer``) and ``discipline``."""
    for row in files.published():
        options = row.texts("options")
        letter = "answer" if row.name_of("answer_letter") is None else "answer_letter"
        gold = place_of(row, letter, len(options))
        if letter != "answer" and row.text_or("", "answer") not in ("", options[gold]):
            row.bad("answer", f"is not option {LETTERS[gold]}")
        attributes = {name: row.text(column) for name, column in SUPERGPQA_ATTRIBUTES.items()}
        attributes["level"] = row.text_or("", "difficulty")
        yield _task(row.name("uuid", "id"), row.text("question"), options, gold, attributes)


def _task(
    key: str, question: str, options: list[str], gold: int, attributes: Mapping[str, str]
) -> Task:
    fields = {"question": question, "choices": options_text(options)}
    target = {"answer": LETTERS[gold], "choices": options}
    return Task(key, fields, target, {**attributes, "gold_position": str(gold)})


def _hash(question: str) -> str:
    return hashlib.sha256(question.encode()).hexdigest()[:16]


def _place(row: Row, count: int) -> int:
    if isinstance(row.value("answer"), str):
        return place_of(row, "answer", count)
    place = row.whole("answer")
    if not 0 <= place < count:
        row.bad("answer", f"{place} is no place of {count} choices")
    return place


def _corrected(row: Row, options: list[str]) -> int | None:
    """Return the index of the annotators' correction: a number, a letter or a choice's text; None
    for anything else."""
    if not row.name_of("correct_answer"):
        return None
    said = row.name("correct_answer").strip()
    letters = LETTERS[: len(options)]
    if said.isascii() and said.isdigit() and int(said) < len(options):
        return int(said)
    if len(said) == 1 and said.upper() in letters:
        return letters.index(said.upper())
    return options.index(said) if options.count(said) == 1 else None
