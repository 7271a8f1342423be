"""Prompts: a YAML file and a task in, OpenAI messages out.

A file has ``system`` and ``user``, texts with ``{field}`` for a task's field (``{{`` and ``}}``
are braces), and ``examples``: either ``given``, a list of ``{field: text}``, or ``retrieve`` with
``from`` (a JSONL file of such objects, beside the prompt's file), ``by`` (the field to compare) and
``count``: those nearest to the task by BM25, nearest last, never the task's own text. An example is
a turn rendered from ``user`` and one from ``assistant``. Inserted text is not expanded again, so a
question that contains braces is unchanged.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tutti.storage import artifact_id
from tutti.tasks.benchmarks.benchmark import Benchmark
from tutti.tasks.benchmarks.errors import BadPrompt
from tutti.tasks.benchmarks.rows import read_rows
from tutti.tasks.config import read_document
from tutti.tasks.retrieval import WordIndex
from tutti.tasks.task_sets import IMAGE, Task

FOLDER = Path(__file__).parent / "prompts"
_PART = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}|[{}]")

Message = dict[str, Any]


class Template:
    """A text with fields."""

    def __init__(self, text: str) -> None:
        """Parse a text. Raises BadPrompt for a brace that is neither doubled nor around a field's
        name."""
        for match in _PART.finditer(text):
            if match[0] in ("{", "}"):
                near = text[max(0, match.start() - 20) : match.end() + 20]
                raise BadPrompt(f"a lone brace near {near!r}: write {{{{ or }}}} for a brace")
        self.text = text

    @property
    def fields(self) -> list[str]:
        """The names of its fields, without duplicates."""
        return list(dict.fromkeys(match[1] for match in _PART.finditer(self.text) if match[1]))

    def render(self, fields: Mapping[str, str]) -> str:
        """Insert every field, in one pass. Raises BadPrompt for a missing field."""

        def put(match: re.Match[str]) -> str:
            if match[1] is None:
                return match[0][0]
            if match[1] not in fields:
                known = ", ".join(fields) or "none"
                raise BadPrompt(f"no field {match[1]!r}; the task's fields are {known}")
            return fields[match[1]]

        return _PART.sub(put, self.text)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Examples(_Strict):
    """Worked examples: given or retrieved."""

    assistant: str
    """Template of the assistant's turn."""
    given: list[dict[str, str]] = []
    source: Annotated[str | None, Field(alias="from")] = None
    """A JSONL file beside the prompt's file."""
    by: str = "question"
    """The field compared to find the nearest."""
    count: Annotated[int, Field(ge=1, le=64)] = 4

    @model_validator(mode="after")
    def _one_kind(self) -> "Examples":
        if bool(self.given) == bool(self.source):
            raise ValueError("give either 'given' or 'from'")
        return self


class PromptFile(_Strict):
    """The contents of a prompt file."""

    system: str | None = None
    user: str | None = None
    """None if the task itself has the conversation."""
    examples: Examples | None = None


class Prompt:
    """A loaded prompt."""

    def __init__(self, name: str, file: PromptFile, folder: Path = FOLDER) -> None:
        """`folder` contains the examples' file. Raises BadPrompt."""
        self.name = name
        self.file = file
        self.folder = folder
        self._system = self._template("system", file.system)
        self._user = self._template("user", file.user)
        self._assistant = self._template(
            "examples", file.examples.assistant if file.examples else None
        )
        if file.examples and self._user is None:
            raise BadPrompt(f"prompt {name}: examples need a `user` template")

    @property
    def prompt_id(self) -> str:
        """Content hash, including examples: part of a cell's id. Raises BadPrompt, BadRow."""
        examples = self.file.examples
        pool = self._pool[0] if examples and examples.source else []
        return artifact_id("prompt", [self.file.model_dump(by_alias=True), pool])

    @property
    def fields(self) -> list[str]:
        """The names of the task's fields that it inserts, without duplicates."""
        parts = (part for part in (self._system, self._user) if part is not None)
        return list(dict.fromkeys(name for part in parts for name in part.fields))

    def _template(self, part: str, text: str | None) -> Template | None:
        try:
            return None if text is None else Template(text)
        except BadPrompt as error:
            raise BadPrompt(f"prompt {self.name}: {part}: {error}") from error

    def render(self, task: Task) -> list[Message]:
        """The first messages of an attempt at `task`.

        A task's own conversation is kept; the system text is put before it, joined with the task's
        own. Raises BadPrompt for a field that the task does not have.
        """
        try:
            return self._render(task)
        except BadPrompt as error:
            raise BadPrompt(f"prompt {self.name}, task {task.key}: {error}") from error

    def _render(self, task: Task) -> list[Message]:
        system = self._system.render(task.inputs).strip() if self._system else ""
        given = [dict(message) for message in task.given]
        if given and given[0]["role"] == "system":
            system = "\n\n".join(text for text in (given.pop(0)["content"], system) if text)
        messages: list[Message] = [{"role": "system", "content": system}] if system else []
        if given or self._user is None:
            return messages + given
        for example in self._examples(task):
            messages += self._turns(self._user, example)
        question = self._user.render(task.inputs).strip()
        return [*messages, {"role": "user", "content": _with_image(question, task)}]

    def _turns(self, user: Template, example: Mapping[str, str]) -> list[Message]:
        assert self._assistant is not None, f"prompt {self.name} has no examples"
        return [
            {"role": "user", "content": user.render(example).strip()},
            {"role": "assistant", "content": self._assistant.render(example).strip()},
        ]

    def _examples(self, task: Task) -> Sequence[Mapping[str, str]]:
        examples = self.file.examples
        if examples is None:
            return []
        own = task.inputs.get(examples.by)
        if examples.given:
            return [one for one in examples.given if own is None or one.get(examples.by) != own]
        if own is None:
            raise BadPrompt(f"no field {examples.by!r} to find examples by")
        rows, index = self._pool
        # One more than needed: the nearest may be the task itself, which would reveal its answer.
        found = [rows[place] for place, _ in index.best(own, len(rows))]
        others = [one for one in found if one[examples.by].split() != own.split()]
        return others[: examples.count][::-1]

    @cached_property
    def _pool(self) -> tuple[list[dict[str, str]], WordIndex]:
        examples = self.file.examples
        assert examples is not None and examples.source is not None, f"prompt {self.name}"
        assert self._user is not None and self._assistant is not None, f"prompt {self.name}"
        names = {examples.by, *self._user.fields, *self._assistant.fields}
        try:
            rows = [
                {name: row.text(name, empty=True) for name in sorted(names)}
                for row in read_rows(self.folder / examples.source)
            ]
        except OSError as error:
            raise BadPrompt(f"the examples cannot be read: {error}") from error
        return rows, WordIndex.of([row[examples.by] for row in rows])


def _with_image(text: str, task: Task) -> str | list[dict[str, Any]]:
    url = task.inputs.get(IMAGE)
    if url is None:
        return text
    return [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}]


def load_prompt(name: str | Path) -> Prompt:
    """Load the shipped prompt `name`, a YAML file by its path, or a template with ``{fields}``,
    which becomes the user's message.

    Raises BadPrompt; for an unknown name it lists the known ones.
    """
    if "{" in str(name):
        return Prompt("template", PromptFile(user=str(name)))
    shipped = {path.stem: path for path in FOLDER.rglob("*.yaml")}
    file = Path(name) if str(name).endswith((".yaml", ".yml")) else shipped.get(str(name))
    if file is None or not file.is_file():
        known = ", ".join(sorted(shipped))
        raise BadPrompt(
            f"no prompt {str(name)!r}; there are {known}, the path of a .yaml file, or a "
            "template such as '{question}'"
        )
    parsed = read_document(file, BadPrompt).check(PromptFile)
    return Prompt(file.stem, parsed, file.parent)


def first_prompt(benchmark: Benchmark, tasks: Sequence[Task], prompt: Prompt | None = None) -> str:
    """The output of ``--dry-run``: the first task's rendered prompt, and its tools.

    Raises BadPrompt if there is no task.
    """
    if not tasks:
        raise BadPrompt(f"{benchmark.name}: no task is selected, so there is no prompt to show")
    task = tasks[0]
    messages = (prompt or load_prompt(benchmark.prompt)).render(task)
    shown = [f"# {benchmark.name}, task {task.key}, scorer {benchmark.scorer}"]
    shown += [f"## {message['role']}\n{_shown(message)}" for message in messages]
    if task.tools:
        names = ", ".join(one["function"]["name"] for one in task.tools)
        shown.append(f"## tools\n{names}")
    return "\n\n".join(shown)


def _shown(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "\n".join(part.get("text", f"<{part['type']}>") for part in content)
    calls = [
        f"{call['function']['name']}({call['function']['arguments']})"
        for call in message.get("tool_calls") or ()
    ]
    return "\n".join([content, *calls]).strip()
