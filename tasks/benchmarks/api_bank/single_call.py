"""API-Bank, levels 1 and 2: dialogues in which an assistant calls APIs.

Levels 1 and 2 are the repository's dialogues, one file each: 214 (one of them empty) and 50, with
389 and 119 calls. Each call is one task: the model gets the dialogue up to there, with the earlier
calls and their gold results (one session: what an earlier call changed shows), and its next message
must make the gold call. Where two calls follow each other the second is a task of its own and not
also a "response" of the first: the reference counts 399 and 135 that way.

What the assistant says before a call belongs to the message that makes the call, so a task's
dialogue ends with the user or with a result. A dialogue without a call is left out, and counted.

Level 1 gives the documentation of the APIs that its dialogue calls; level 2 the tool searcher and
what it has found so far (13 gold calls are to an API that the gold searches never found:
``on_offer = 'no'``). `replay_note` in `api_bank_gold` says which gold calls their own APIs do not
confirm. Whole dialogues, and level 3, are in `api_bank_session`.

``api-bank-1``, ``api-bank-2``: each API's own check, as far as arguments and recorded results tell
it (scorer ``api_bank_recorded``; rule ``executed``: by execution, with the publisher's programs;
``strict``: exact JSON). ``api-bank-1-response`` and ``api-bank-2-response``: the replies that
follow a call, by ROUGE-L.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti.tasks.benchmarks.api_bank.gold import NO_FAULT, Databases, replay_note
from tutti.tasks.benchmarks.api_bank.tools import SEARCHER, SEARCHER_TOOL, Descriptions
from tutti.tasks.benchmarks.api_bank.world import text_of
from tutti.tasks.benchmarks.benchmark import tool_call
from tutti.tasks.benchmarks.rows import Row, read_rows
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.task_sets import ExcludedRow, Task

ROLES = ("User", "AI", "API")


@dataclass(frozen=True)
class Turn:
    """One line of a dialogue: something said, or a call with its gold result."""

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
    return Dialogue(file, tuple(_turn(row) for row in read_rows(file)))


def _turn(row: Row) -> Turn:
    role = row.text("role")
    if role not in ROLES:
        row.bad("role", f"{role!r} is none of {', '.join(ROLES)}")
    if role != "API":
        return Turn(row.line, role, row.text("text", empty=True))
    return call_of(row, row.line, "param_dict", "result")


def call_of(row: Row, line: int, arguments: str, result: str, may_fail: bool = False) -> Turn:
    """A gold call with its recorded result, in the fields of these names. Raises BadRow."""
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
    descriptions = Descriptions.of(home, [(call.name, call.arguments or {}) for call in calls])
    databases = Databases.of(home)
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
    """One task per reply that follows a call at once. Raises BadRow."""
    dialogues = [read_dialogue(path) for path in files.paths]
    for dialogue in dialogues:
        replies = 0
        for place, turn in enumerate(dialogue.turns):
            if turn.role != "AI" or place == 0 or dialogue.turns[place - 1].role != "API":
                continue
            replies += 1
            yield Task(
                key=f"{dialogue.file.stem}#{turn.line}",
                inputs={},
                target={"response": turn.text},
                attributes={
                    "api": dialogue.turns[place - 1].name,
                    "dialogue": dialogue.file.stem,
                },
                given=messages_of(dialogue.turns[:place]),
            )
        if not replies:
            yield ExcludedRow(dialogue.file.name, "no reply follows a call")


def _task(
    dialogue: Dialogue,
    turn: Turn,
    before: Sequence[Turn],
    tools: list[dict[str, Any]],
    databases: Databases,
) -> Task:
    call: dict[str, Any] = {"name": turn.name, "arguments": turn.arguments}
    earlier = [(t.name, t.arguments or {}) for t in before if t.role == "API"]
    offered = {one["function"]["name"] for one in tools}
    note = replay_note(turn.name, turn.arguments or {}, earlier, databases)
    if note.fault != NO_FAULT or note.needs_session:  # the reference runs it on fresh databases
        call["fails"] = note.fault if note.fault != NO_FAULT else "needs an earlier call"
    return Task(
        key=f"{dialogue.file.stem}#{turn.line}",
        inputs={},
        target={"calls": [call], "known": parameters_of(tools)},
        attributes={
            "api": turn.name,
            "dialogue": dialogue.file.stem,
            "known_bad": note.fault,
            "needs_session": "yes" if note.needs_session else "no",
            "on_offer": "yes" if turn.name in offered else "no",
        },
        given=messages_of(before),
        tools=tools,
    )


def parameters_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """By each tool's name its documented parameters."""
    described = [one["function"] for one in tools]
    return {one["name"]: list(one["parameters"]["properties"]) for one in described}


def messages_of(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """The turns as OpenAI messages, without the assistant's last text, which it is to produce."""
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


def documented(dialogue: Dialogue, descriptions: Descriptions) -> list[dict[str, Any]]:
    """The tools that the dialogue calls."""
    return [descriptions.tool(name) for name in dict.fromkeys(t.name for t in dialogue.calls)]


def _found(dialogue: Dialogue, before: Sequence[Turn]) -> list[dict[str, Any]]:
    """The tool searcher, and the tools it has found in the dialogue so far."""
    tools = {SEARCHER: SEARCHER_TOOL}
    for turn in before:
        if turn.name == SEARCHER:
            tools |= {one["function"]["name"]: one for one in found_by(dialogue, turn)}
    return list(tools.values())


def found_by(dialogue: Dialogue, search: Turn) -> list[dict[str, Any]]:
    """The tools that a gold search of the dialogue found. Raises BadRow."""
    row = Row(dialogue.file, search.line, {"output": search.result}, "result")
    return Descriptions.found(row)


def repository(file: Path) -> Path:
    """The folder that holds ``data/`` and ``init_database/``: two above the dialogue's folder."""
    return file.resolve().parent.parent.parent
