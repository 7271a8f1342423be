"""API-Bank, levels 1 and 2: each gold call of a dialogue is one task.

The model gets the dialogue up to the call, with the earlier calls and their gold results. Level 1
gives the documentation of the APIs that its dialogue calls; level 2 the tool searcher and its
results so far. A dialogue without a call is left out, and counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tutti.tasks.benchmarks.api_bank.gold import NO_FAULT, fault_of, needs_session, read_databases
from tutti.tasks.benchmarks.api_bank.tools import (
    SEARCHER,
    SEARCHER_TOOL,
    describe_tools,
    found_tools,
)
from tutti.tasks.benchmarks.api_bank.world import text_of
from tutti.tasks.benchmarks.benchmark import tool_call
from tutti.tasks.benchmarks.rows import Row, read_rows
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.task_sets import ExcludedRow, Task

ROLES = ("User", "AI", "API")


@dataclass(frozen=True)
class Turn:
    """One line of a dialogue: a message, or a call with its gold result."""

    line: int
    role: str
    """One of `ROLES`."""
    text: str = ""
    name: str = ""
    arguments: dict[str, Any] | None = None
    result: Any = None


@dataclass(frozen=True)
class Dialogue:
    """One file of levels 1 and 2."""

    file: Path
    turns: tuple[Turn, ...]

    @property
    def calls(self) -> list[Turn]:
        """The turns that are calls."""
        return [turn for turn in self.turns if turn.role == "API"]


def read_dialogue(file: Path) -> Dialogue:
    """One dialogue; an empty file is one without turns. Raises BadRow."""
    turns = []
    for row in read_rows(file):
        role = row.text("role")
        if role not in ROLES:
            row.bad("role", f"{role!r} is none of {', '.join(ROLES)}")
        if role == "API":
            turns.append(call_of(row, row.line, "param_dict", "result"))
        else:
            turns.append(Turn(row.line, role, row.text("text", empty=True)))
    return Dialogue(file, tuple(turns))


def call_of(row: Row, line: int, arguments: str, result: str, may_fail: bool = False) -> Turn:
    """A gold call with its recorded result, from the fields of these names. Raises BadRow."""
    recorded = row.object(result)
    if not may_fail and recorded.data.get("exception") is not None:
        recorded.bad("exception", "a gold call must not fail")
    if "output" not in recorded.data:
        recorded.bad("output", "is missing")
    given, output = dict(row.object(arguments).data), recorded.data["output"]
    return Turn(line, "API", name=row.text("api_name"), arguments=given, result=output)


def read(files: Files, level: int) -> Iterator[Task | ExcludedRow]:
    """One task per call of level 1 or 2. Raises BadRow."""
    dialogues = [read_dialogue(path) for path in files.paths]
    calls = [turn for dialogue in dialogues for turn in dialogue.calls]
    home = repository(files.paths[0])
    descriptions = describe_tools(home, [(call.name, call.arguments or {}) for call in calls])
    databases = read_databases(home)
    for dialogue in dialogues:
        if not dialogue.calls:
            reason = "the dialogue is empty" if not dialogue.turns else "no line of it is a call"
            yield ExcludedRow(dialogue.file.name, reason)
        for place, turn in enumerate(dialogue.turns):
            if turn.role != "API":
                continue
            before = dialogue.turns[:place]
            tools = documented(dialogue, descriptions) if level == 1 else _found(dialogue, before)
            yield _task(dialogue, turn, before, tools, databases)


def read_responses(files: Files) -> Iterator[Task | ExcludedRow]:
    """Yield one task per reply that immediately follows a call. Raises BadRow."""
    dialogues = [read_dialogue(path) for path in files.paths]
    for dialogue in dialogues:
        pairs = enumerate(pairwise(dialogue.turns), 1)
        replies = [each for each in pairs if [t.role for t in each[1]] == ["API", "AI"]]
        for place, (call, reply) in replies:
            yield Task(
                key=f"{dialogue.file.stem}#{reply.line}",
                inputs={},
                target={"response": reply.text},
                attributes={"api": call.name, "dialogue": dialogue.file.stem},
                given=messages_of(dialogue.turns[:place]),
            )
        if not replies:
            yield ExcludedRow(dialogue.file.name, "no reply follows a call")


def _task(
    dialogue: Dialogue,
    turn: Turn,
    before: Sequence[Turn],
    tools: list[dict[str, Any]],
    databases: tuple[Mapping[str, Any], Mapping[str, Any]],
) -> Task:
    call: dict[str, Any] = {"name": turn.name, "arguments": turn.arguments}
    earlier = [(t.name, t.arguments or {}) for t in before if t.role == "API"]
    offered = {one["function"]["name"] for one in tools}
    accounts, scenes = databases
    fault = fault_of(turn.name, turn.arguments or {}, earlier, scenes)
    # The reference runs it on fresh databases.
    is_late = fault == NO_FAULT and needs_session(turn.name, turn.arguments or {}, accounts)
    if fault != NO_FAULT or is_late:
        call["fails"] = "needs an earlier call" if is_late else fault
    return Task(
        key=f"{dialogue.file.stem}#{turn.line}",
        inputs={},
        target={"calls": [call], "known": parameters_of(tools)},
        attributes={
            "api": turn.name,
            "dialogue": dialogue.file.stem,
            "known_bad": fault,
            "needs_session": "yes" if is_late else "no",
            "on_offer": "yes" if turn.name in offered else "no",
        },
        given=messages_of(before),
        tools=tools,
    )


def parameters_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the documented parameters by tool name."""
    described = [one["function"] for one in tools]
    return {one["name"]: list(one["parameters"]["properties"]) for one in described}


def messages_of(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """The turns as OpenAI messages, without the assistant's last text, the expected output."""
    messages: list[dict[str, Any]] = []
    said: list[str] = []
    for turn in turns:
        if turn.role == "AI":
            said.append(turn.text)
            continue
        call_id = f"call-{turn.line}"
        if turn.role == "API":
            calls = [tool_call(call_id, turn.name, turn.arguments or {})]
            text = "\n".join(said) or None
            messages.append({"role": "assistant", "content": text, "tool_calls": calls})
            messages.append(
                {"role": "tool", "tool_call_id": call_id, "content": text_of(turn.result)}
            )
        else:
            if said:
                messages.append({"role": "assistant", "content": "\n".join(said)})
            messages.append({"role": "user", "content": turn.text})
        said = []
    return messages


def documented(
    dialogue: Dialogue, descriptions: Mapping[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """The tools that the dialogue calls."""
    return [descriptions[name] for name in dict.fromkeys(t.name for t in dialogue.calls)]


def _found(dialogue: Dialogue, before: Sequence[Turn]) -> list[dict[str, Any]]:
    tools = {SEARCHER: SEARCHER_TOOL}
    for turn in before:
        if turn.name == SEARCHER:
            tools |= found_by(dialogue, turn)
    return list(tools.values())


def found_by(dialogue: Dialogue, search: Turn) -> dict[str, dict[str, Any]]:
    """Return by name the tools that a gold search of the dialogue returned. Raises BadRow."""
    return found_tools(Row(dialogue.file, search.line, {"output": search.result}, "result"))


def repository(file: Path) -> Path:
    """The folder that holds ``data/`` and ``init_database/``: two above the dialogue's folder."""
    return file.resolve().parent.parent.parent
