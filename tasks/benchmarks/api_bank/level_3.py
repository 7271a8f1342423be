"""API-Bank's level 3 by its published protocol: each call after its preceding gold calls.

The publisher's accuracy is the share of right calls; its sample accuracy is the share of samples
without a wrong one (attribute ``sample``). Ten gold calls are wrong by the publisher's own check
(``known_bad``). Level 3 in one session is in `session`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from tutti.tasks.benchmarks.api_bank.gold import NO_FAULT
from tutti.tasks.benchmarks.api_bank.single_call import Turn, call_of, messages_of, parameters_of
from tutti.tasks.benchmarks.api_bank.tools import SEARCHER, SEARCHER_TOOL, found_tools
from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.task_sets import Task

UNREAD_LIST = "an argument is a list, which the publisher's parser reads as text"


def read_calls(files: Files) -> Iterator[Task]:
    """One task per call. Raises BadRow."""
    for number, row in enumerate(files.rows()):
        turns, found = [_request(row)], {SEARCHER: SEARCHER_TOOL}
        for place, call in enumerate(_calls(row)):
            turn = _turn(call, len(turns))
            gold: dict[str, Any] = {"name": turn.name, "arguments": turn.arguments}
            unread = any(isinstance(value, list) for value in (turn.arguments or {}).values())
            fault = UNREAD_LIST if unread else NO_FAULT
            if unread:
                gold["fails"] = fault
            tools = list(found.values())
            yield Task(
                key=f"{number}#{place}",
                inputs={},
                target={
                    "calls": [gold],
                    "known": parameters_of(tools),
                    "result": dict(call.object("output").data),
                },
                attributes={
                    "api": turn.name,
                    "sample": str(number),
                    "known_bad": fault,
                    "on_offer": "yes" if turn.name in found else "no",
                },
                given=messages_of(turns),
                tools=tools,
            )
            if turn.name == SEARCHER:
                found |= found_tools(call.object("output"))
            turns.append(turn)


def read_responses(files: Files) -> Iterator[Task]:
    """One task per sample: its reply. Raises BadRow."""
    for number, row in enumerate(files.rows()):
        turns = [_request(row)]
        turns += [_turn(call, place) for place, call in enumerate(_calls(row), 1)]
        yield Task(
            key=str(number),
            inputs={},
            target={"response": row.text("response")},
            attributes={"calls": str(len(turns) - 1)},
            given=messages_of(turns),
        )


def _request(row: Row) -> Turn:
    return Turn(0, "User", row.text("requirement").strip())


def _calls(row: Row) -> Sequence[Row]:
    calls = row.objects("apis")
    if not calls:
        row.bad("apis", "holds no call")
    return calls


def _turn(call: Row, place: int) -> Turn:
    return call_of(call, place, "input", "output", may_fail=True)
