"""API-Bank in one session: one attempt is a whole dialogue, whose tools answer (`world`).

The target is the gold calls in order, without the searches for tools (their keywords are free); a
dialogue with any error is wrong. The library of level 2 is every API that the dialogues of both
levels call; that of level 3 every API that its samples' searches return or that they call.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from tutti.tasks.benchmarks.api_bank.gold import NO_FAULT, Call, fault_of, read_databases
from tutti.tasks.benchmarks.api_bank.single_call import (
    Turn,
    call_of,
    documented,
    found_by,
    messages_of,
    read_dialogue,
    repository,
)
from tutti.tasks.benchmarks.api_bank.tools import (
    SEARCHER,
    SEARCHER_TOOL,
    describe_tools,
    found_tools,
)
from tutti.tasks.benchmarks.api_bank.world import session_target
from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.task_sets import ExcludedRow, Task

Tool = dict[str, Any]
Step = dict[str, Any]
"""``{"says": text}`` of the user, or a call: ``name``, ``arguments``, ``result``."""


def read(files: Files, level: int) -> Iterator[Task | ExcludedRow]:
    """One task per dialogue of level 1 or 2. Raises BadRow."""
    home = repository(files.paths[0])
    dialogues = {path: read_dialogue(path) for path in files.paths}
    descriptions, library = _descriptions(files, level)
    _, scenes = read_databases(home)
    for path, dialogue in dialogues.items():
        earlier, calls, faults = list[Call](), 0, 0
        for turn in dialogue.calls:
            arguments = turn.arguments or {}
            calls += turn.name != SEARCHER
            faults += fault_of(turn.name, arguments, earlier, scenes) != NO_FAULT
            earlier.append((turn.name, arguments))
        if not calls:
            yield ExcludedRow(path.name, "no line of it is a call")
            continue
        first = next(nth for nth, turn in enumerate(dialogue.turns) if turn.role != "User")
        script = [
            {"says": turn.text} if turn.role == "User" else _step(turn)
            for turn in dialogue.turns[first:]
            if turn.role != "AI"
        ]
        yield Task(
            key=path.stem,
            inputs={},
            target=session_target(script, library),
            attributes={"calls": str(calls), "known_bad": str(faults)},
            given=messages_of(dialogue.turns[:first]),
            tools=documented(dialogue, descriptions) if level == 1 else [SEARCHER_TOOL],
        )


def _descriptions(files: Files, level: int) -> tuple[dict[str, Tool], list[Tool]]:
    """Return every API of the dialogues, and the searcher's library, which is empty at level 1."""
    beside = sorted(files.paths[0].parent.parent.glob("level-*/*.jsonl")) or files.paths
    dialogues = [read_dialogue(path) for path in (files.paths if level == 1 else beside)]
    calls = [(turn.name, turn.arguments or {}) for each in dialogues for turn in each.calls]
    tools = describe_tools(repository(files.paths[0]), calls)
    if level == 1:
        return tools, []
    library = {name: one for name, one in tools.items() if name != SEARCHER}
    for dialogue in dialogues:
        for turn in dialogue.calls:
            if turn.name == SEARCHER:  # as the APIs themselves put it, which the table may not
                library |= found_by(dialogue, turn)
    return tools, list(library.values())


def read_level_3(files: Files) -> Iterator[Task]:
    """One task per sample: its request, and its calls in order. Raises BadRow."""
    rows = list(files.rows())
    scripts = [
        [_step(call_of(call, 0, "input", "output")) for call in row.objects("apis")] for row in rows
    ]
    library = _library(rows, scripts)
    for number, (row, script) in enumerate(zip(rows, scripts, strict=True)):
        target = session_target(script, library)
        if not target["calls"]:
            row.bad("apis", "holds no call")
        yield Task(
            key=str(number),
            inputs={"question": row.text("requirement").strip()},
            target=target,
            attributes={"calls": str(len(target["calls"]))},
            tools=[SEARCHER_TOOL],
        )


def _step(call: Turn) -> Step:
    return {"name": call.name, "arguments": call.arguments or {}, "result": call.result}


def _library(rows: Sequence[Row], scripts: Sequence[Sequence[Step]]) -> list[Tool]:
    used = [(step["name"], step["arguments"]) for script in scripts for step in script]
    library = describe_tools(None, used)
    del library[SEARCHER]
    for row in rows:
        for call in row.objects("apis"):
            if call.text("api_name") == SEARCHER:
                library |= found_tools(call.object("output"))
    return list(library.values())
