"""The user's own benchmark as a JSONL file: one task per line.

The fields of a row that are neither question nor answer can be used in a prompt and in ``--where``.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti.tasks.benchmarks.benchmark import Benchmark, prompt_for
from tutti.tasks.benchmarks.errors import BenchmarkError, SourceMissing
from tutti.tasks.benchmarks.questions.choices import options_text
from tutti.tasks.benchmarks.rows import Row, shown
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.scoring import LETTERS, UNSCORED, numbers
from tutti.tasks.task_sets import IMAGE, Task

QUESTION_FIELDS = ("question", "prompt", "problem")
ANSWER_FIELDS = ("answer", "target", "expected_answer")
CHOICES, ID, MESSAGES = "choices", "id", "messages"
ROLES = ("system", "developer", "user", "assistant", "tool")
URLS = ("data:", "https:", "http:")
JSONL_SCORERS = ("exact", "numeric", "math", "choice", "judge", UNSCORED.name)
"""The scorers that a JSONL file can use; `none` scores nothing (`tutti generate`)."""
SCORER_WORDS = (
    "exact (the whole reply), numeric (a number), math (a formula), choice (a letter), "
    "judge (a model compares; needs roles.judge)"
)


@dataclass(frozen=True)
class OwnReading:
    """How to read and score the user's own file; None leaves the choice to the file's reader."""

    scorer: str | None = None
    """The scorer's name. Required for a JSONL file."""
    question_field: str | None = None
    answer_field: str | None = None
    prompt: str | None = None
    source: Path | None = None
    """What `OwnBenchmark.load` gets."""


def jsonl_benchmark(name: str, path: Path, reading: OwnReading) -> Benchmark:
    """The benchmark in `path`. Raises SourceMissing, and BenchmarkError without a scorer."""
    if not path.is_file():
        raise SourceMissing(
            f"benchmark: {path} does not exist; a relative path starts at the suite file's folder"
        )
    scorer = reading.scorer
    if scorer is None or scorer not in JSONL_SCORERS:
        raise BenchmarkError(f"data.scorer: {path.name} needs one: {SCORER_WORDS}")
    return Benchmark(
        name=generated_name(name) if scorer == UNSCORED.name else name,
        read=JsonlReader(scorer, reading).read,
        splits={"test": ("*.jsonl",)},
        scorer=scorer,
        prompt=prompt_for(scorer),
        gold=_first_answer,
        licence="yours",
        own_scorer=UNSCORED if scorer == UNSCORED.name else None,
    )


def generated_name(name: str) -> str:
    """The name in ids and tables of a file without scores; no benchmark has that name."""
    return f"generate-{name}"


@dataclass(frozen=True)
class JsonlReader:
    """Converts rows to tasks."""

    scorer: str
    reading: OwnReading

    def read(self, files: Files) -> Iterator[Task]:
        lines: dict[str, int] = {}
        for number, row in enumerate(files.rows()):
            task = self._task(number, row)
            if task.key in lines:
                row.bad(ID, f"{task.key!r} is also the id of line {lines[task.key]}")
            lines[task.key] = row.line
            yield task

    def _task(self, number: int, row: Row) -> Task:
        if self.scorer == UNSCORED.name:
            return self._unscored(number, row)
        question_names = _names(self.reading.question_field, QUESTION_FIELDS)
        answer_names = _names(self.reading.answer_field, ANSWER_FIELDS)
        question = row.name(*question_names) if self._has_question(row, question_names) else None
        used = {row.name_of(*answer_names), row.name_of(ID)}
        others = {key: text for key, text in _texts_of(row).items() if key not in used}
        target = self._target(row, answer_names)
        fields = others if question is None else others | {"question": question}
        if self.scorer == "choice":
            choices = target.get(CHOICES)
            fields |= {CHOICES: options_text(choices) if isinstance(choices, list) else ""}
        if IMAGE in fields and not fields[IMAGE].startswith(URLS):
            row.bad(IMAGE, f"{shown(fields[IMAGE])} is not a data: or https: URL")
        if question is not None and self.scorer == "judge":
            target["question"] = question
        item_id = row.name(ID) if row.name_of(ID) else str(number)
        asked = row.name_of(*question_names)
        attributes = {key: text for key, text in others.items() if key != asked}
        return Task(item_id, fields, target, attributes)

    def _unscored(self, number: int, row: Row) -> Task:
        """A row whose reply is not scored: every field can be used in a prompt, an answer is stored
        for a later `tutti score`, and ids may repeat, because a row is identified by its number."""
        names = _names(self.reading.question_field, (*QUESTION_FIELDS, MESSAGES))
        fields, given = _texts_of(row), row.name_of(*names)
        messages: list[dict[str, Any]] = []
        if not self._has_question(row, names):
            pass
        elif isinstance(row.value(*names), str | int):
            fields["question"] = row.name(*names)
        elif self.reading.question_field or not self._has_own_prompt:
            messages = [_message(each) for each in row.objects(*names)]
            if not messages:
                row.bad(given or names[0], "is empty")
        field = row.name_of(*_names(self.reading.answer_field, ANSWER_FIELDS))
        target = {} if field is None else {"answer": fields[field]}
        attributes = {key: text for key, text in fields.items() if key not in (given, ID)}
        return Task(str(number), fields, target, attributes, messages)

    @property
    def _has_own_prompt(self) -> bool:
        prompt = self.reading.prompt or ""
        return "{" in prompt or prompt.endswith((".yaml", ".yml"))

    def _has_question(self, row: Row, names: tuple[str, ...]) -> bool:
        """Whether to read the question. A prompt with fields of its own can do without one."""
        required = not self._has_own_prompt or self.scorer == "judge" or self.reading.question_field
        return bool(required) or row.name_of(*names) is not None

    def _target(self, row: Row, names: tuple[str, ...]) -> dict[str, Any]:
        value = row.value(*names)
        field = row.name_of(*names) or names[0]
        if value == []:
            row.bad(field, "is empty")
        values = value if isinstance(value, list) else [value]
        texts = [_answer_text(row, field, each) for each in values]
        if self.scorer == "choice":
            return self._choice_target(row, field, texts)
        for text in texts if self.scorer == "numeric" else ():
            if (count := len(numbers(text))) != 1:
                row.bad(field, f"{shown(text)} holds {count} numbers; numeric compares one")
        return {"answer": texts if isinstance(value, list) else texts[0]}

    def _choice_target(self, row: Row, field: str, texts: list[str]) -> dict[str, Any]:
        choices = row.texts_or(CHOICES)
        if row.name_of(CHOICES) and not 2 <= len(choices) <= len(LETTERS):
            row.bad(CHOICES, f"has {len(choices)} texts; 2 to {len(LETTERS)} are possible")
        letters = LETTERS[: len(choices)] if choices else LETTERS
        text = texts[0].strip()
        letter = letters[choices.index(text)] if text in choices else text.upper()
        if len(texts) > 1 or len(letter) != 1 or letter not in letters:
            also = " or the text of a choice" if choices else ""
            row.bad(field, f"{shown(row.data[field])} is not one of {letters}{also}")
        return {"answer": letter, CHOICES: choices or len(LETTERS)}


def _message(row: Row) -> dict[str, Any]:
    role = row.text("role")
    if role not in ROLES:
        row.bad("role", f"{shown(role)} is none of {', '.join(ROLES)}")
    for call in row.objects_or("tool_calls"):
        call.text("id")
        function = call.object("function")
        function.text("name")
        function.text("arguments", empty=True)
    if not isinstance(row.data.get("content"), str | list) and not row.name_of("tool_calls"):
        row.bad("content", "is neither a text nor a list of parts")
    return {"content": None, **row.data}


def _names(given: str | None, default: tuple[str, ...]) -> tuple[str, ...]:
    return default if given is None else (given,)


def _answer_text(row: Row, field: str, value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return json.dumps(value)
    if not isinstance(value, str):
        row.bad(field, f"{shown(value)} is not a text, a number, or a list of them")
    if not value.strip():
        row.bad(field, "is empty")
    return value


def _texts_of(row: Row) -> dict[str, str]:
    """Return every nonempty field as text; other values are JSON."""
    return {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in row.data.items()
        if value is not None
    }


def _first_answer(task: Task) -> str:
    answer = task.target["answer"]
    return answer if isinstance(answer, str) else str(answer[0])
