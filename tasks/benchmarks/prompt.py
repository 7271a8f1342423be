"""Prompts: a YAML file and a task in, OpenAI messages out.

``{field}`` of a text is a task's field (``{{`` and ``}}`` are braces). Inserted text is not
expanded again.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tutti.storage import artifact_id
from tutti.tasks.benchmarks.benchmark import Benchmark
from tutti.tasks.benchmarks.errors import BadPrompt
from tutti.tasks.platform import read_document
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
    """Worked examples, each with the task's fields; the task itself is never one."""

    assistant: str
    given: list[dict[str, str]] = Field(min_length=1)


class PromptFile(_Strict):
    """The contents of a prompt file."""

    system: str | None = None
    user: str | None = None
    """None if the task itself has the conversation."""
    examples: Examples | None = None


class Prompt:
    """A loaded prompt."""

    def __init__(self, name: str, file: PromptFile) -> None:
        """Raises BadPrompt."""
        self.name, self.file = name, file
        self._system = self._template("system", file.system)
        self._user = self._template("user", file.user)
        self._assistant = self._template(
            "examples", file.examples.assistant if file.examples else None
        )
        if file.examples and self._user is None:
            raise BadPrompt(f"prompt {name}: examples need a `user` template")

    @property
    def prompt_id(self) -> str:
        """Content hash, including examples: part of a cell's id."""
        content = self.file.model_dump()
        if content["examples"]:
            # Files had these fields when the first ids were stored.
            content["examples"] |= {"from": None, "by": "question", "count": 4}
        return artifact_id("prompt", [content, []])

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
        """Return the first messages of an attempt at `task`. A task's own conversation is used,
        with the system text before it. Raises BadPrompt for a field that the task lacks."""
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
        for example in self.file.examples.given if self.file.examples else ():
            if example.get("question", "") == task.inputs.get("question"):
                continue
            assert self._assistant is not None, f"prompt {self.name} has no examples"
            for role, part in (("user", self._user), ("assistant", self._assistant)):
                messages.append({"role": role, "content": part.render(example).strip()})
        content: Any = self._user.render(task.inputs).strip()
        if IMAGE in task.inputs:
            image = {"type": "image_url", "image_url": {"url": task.inputs[IMAGE]}}
            content = [{"type": "text", "text": content}, image]
        return [*messages, {"role": "user", "content": content}]


def load_prompt(name: str | Path) -> Prompt:
    """Load the shipped prompt `name`, a YAML file by its path, or a template with ``{fields}``,
    which becomes the user's message. Raises BadPrompt; for an unknown name it lists the known ones.
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
    return Prompt(file.stem, parsed)


def first_prompt(benchmark: Benchmark, tasks: Sequence[Task], prompt: Prompt | None = None) -> str:
    """The output of ``--dry-run``: the first task's rendered prompt, and its tools. Raises
    BadPrompt if there is no task."""
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
