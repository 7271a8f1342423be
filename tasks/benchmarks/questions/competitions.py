"""Competition mathematics: AIME 2024 to 2026 (30 problems each), HMMT February 2025 (30),
Omni-MATH (4,428 of olympiads) and MathOdyssey (387 from school to university).

AIME's answers are whole numbers, 0 to 999. Thirty tasks: one is worth 3.3 points, so run many
trials (``aime-25:16``). The others' answers are compared as expressions. Omni-MATH's publisher has
a model judge them, and so does MathOdyssey's: some of their answers are words, which no program
compares (MathOdyssey's are excluded). Their numbers here are by the scorer `math`, and the report
says so.
"""

import re
from collections.abc import Iterator

from tutti.tasks.benchmarks.benchmark import Benchmark
from tutti.tasks.benchmarks.prepared import ANSWER as PREPARED
from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files, Hub
from tutti.tasks.task_sets import ExcludedRow, Task

LARGEST = 999
_LAYOUT = re.compile(r"(?:\\\\|\\noindent|\\end\{problem\}|\s)+$")
"""What is left of the source's layout at the end of a field of MathOdyssey."""
_WORD = re.compile(r"[A-Za-z]{2,}")


def read_aime(files: Files) -> Iterator[Task]:
    """One task a row with ``problem`` and ``answer`` ("016" and 16 are both 16)."""
    for number, row in enumerate(files.published()):
        answer = row.name("answer", "Answer").strip()
        if not answer.isascii() or not answer.isdigit() or int(answer) > LARGEST:
            row.bad(
                row.name_of("answer", "Answer") or "answer", f"{answer!r} is not 0 to {LARGEST}"
            )
        yield Task(
            key=row.name("id", "ID", "problem_idx")
            if row.name_of("id", "ID", "problem_idx")
            else str(number),
            inputs={"question": row.text("problem", "question", "Problem")},
            target={"answer": str(int(answer))},
        )


def read_hmmt(files: Files) -> Iterator[Task]:
    """One task a row with ``problem`` and ``answer``; ``problem_type`` is a list of fields."""
    for number, row in enumerate(files.published()):
        yield Task(
            key=row.name("problem_idx", "id") if row.name_of("problem_idx", "id") else str(number),
            inputs={"question": row.text("problem")},
            target={"answer": row.name("answer")},
            attributes={"subject": _joined(row, "problem_type")},
        )


def read_omni(files: Files) -> Iterator[Task]:
    """One task a row with ``problem``, ``answer``, ``domain``, ``difficulty`` (1 to 10) and
    ``source``."""
    for number, row in enumerate(files.published()):
        level = row.value("difficulty")
        if isinstance(level, bool) or not isinstance(level, int | float):
            row.wrong(("difficulty",), level, "a number")
        domains = row.texts("domain") if row.name_of("domain") else []
        yield Task(
            key=str(number),
            inputs={"question": row.text("problem")},
            target={"answer": row.name("answer")},
            attributes={
                "subject": _field(domains[0]) if domains else "",
                "level": f"{level:g}",
                "source": row.text_or("", "source"),
            },
        )


def read_odyssey(files: Files) -> Iterator[Task | ExcludedRow]:
    """One task a row ``{"Problem_1": {…}}`` with ``question``, ``answer``, ``label`` and
    ``level``, or a row of NeMo-Skills'. A full stop and dollar signs around an answer are left
    out. A problem whose answer is a word ("Yes", 15 of 387) is excluded."""
    for number, row in enumerate(files.published(), 1):
        name, problem = str(number), row
        if row.name_of(PREPARED) is None:
            if len(row.data) != 1:
                row.bad("", f"has {len(row.data)} fields, not one problem")
            (name,) = row.data
            problem = row.object(name)
        answer = _LAYOUT.sub("", problem.text("answer")).rstrip(".").strip()
        if answer.startswith("$") and answer.endswith("$") and answer.count("$") == 2:
            answer = answer.strip("$").strip()
            answer = answer.rstrip(".").strip()
        if not answer:
            problem.bad("answer", "is empty")
        if _WORD.fullmatch(answer):
            yield ExcludedRow(name, "the answer is a word, which no program compares")
            continue
        yield Task(
            key=name.removeprefix("Problem_"),
            inputs={"question": _LAYOUT.sub("", problem.text("question"))},
            target={"answer": answer},
            attributes={"subject": problem.text("label"), "level": problem.text("level")},
        )


def _field(domain: str) -> str:
    """``Mathematics -> Algebra -> Equations``: the second is the field."""
    return domain.split(" -> ")[min(1, domain.count(" -> "))]


def _joined(row: Row, name: str) -> str:
    return ", ".join(row.texts(name)) if row.name_of(name) else ""


AIME_24 = Benchmark(
    name="aime-24",
    read=read_aime,
    splits={"train": ("data/train-*.parquet", "train-*.parquet", "*.jsonl")},
    scorer="math",
    prompt="math",
    hub=Hub("HuggingFaceH4/aime_2024", "2fe88a2f1091d5048c0f36abc874fb997b3dd99a"),
    licence="Problems (c) Mathematical Association of America, AIME 2024",
)
AIME_25 = Benchmark(
    name="aime-25",
    read=read_aime,
    splits={"test": ("test.jsonl", "*.jsonl", "data/*.parquet")},
    scorer="math",
    prompt="math",
    hub=Hub("math-ai/aime25", "563bb8404243c5f09de6ec262f2db674fe5bce9b"),
    licence="Problems (c) Mathematical Association of America, AIME 2025",
)
AIME_26 = Benchmark(
    name="aime-26",
    read=read_aime,
    splits={"test": ("test.jsonl", "*.jsonl", "data/*.parquet")},
    scorer="math",
    prompt="math",
    hub=Hub("math-ai/aime26", "79037aebdb6580008fb960d17cb21fd3099083e3"),
    licence="Problems (c) Mathematical Association of America, AIME 2026",
)
HMMT_FEB_25 = Benchmark(
    name="hmmt-feb-25",
    read=read_hmmt,
    splits={"train": ("data/train-*.parquet", "train-*.parquet", "*.jsonl")},
    scorer="math",
    prompt="math",
    hub=Hub("MathArena/hmmt_feb_2025", "6fdc4277120810ff75aa22d2d5489b91f7a262a1"),
    licence="CC BY-NC-SA 4.0; Balunovic et al. 2025, arXiv 2505.23281; problems (c) HMMT",
)
OMNI_MATH = Benchmark(
    name="omni-math",
    read=read_omni,
    splits={"test": ("test.jsonl", "*.jsonl", "data/test-*.parquet")},
    scorer="math",
    prompt="math",
    hub=Hub("KbsdJames/Omni-MATH", "40ba231d8f16e29ecd40e6407e2c8640145a8f62"),
    licence="Apache-2.0; Gao et al. 2024, arXiv 2410.07985",
)
MATH_ODYSSEY = Benchmark(
    name="math-odyssey",
    read=read_odyssey,
    splits={"test": ("final-odyssey-math-with-levels.jsonl", "*.jsonl")},
    scorer="math",
    prompt="math",
    licence="CC BY-SA 4.0, not for training; Fang et al. 2024, arXiv 2406.18321",
)
