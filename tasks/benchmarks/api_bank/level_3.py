"""API-Bank's level 3 by its published protocol: each call after the gold calls before it.

``api-bank-3-call``: a task for each of the 245 calls of the 50 samples, also for the 114 searches
for tools. The model gets the request, the gold calls so far with their results, and on offer the
tool searcher and what it has found. ``api-bank-3-response``: the final reply after all gold calls.
The publisher's accuracy is the share of right calls; its sample accuracy is the share of samples
without a wrong one (attribute ``sample``). Ten gold calls are wrong by the publisher's own check
(``known_bad``). ``api-bank-3``, where the attempt goes its own way, is
in `session`.

Rules: each API's own check, from arguments and recorded results (default); ``executed``: by
execution with the publisher's programs, whose tool searcher needs an embedding model;
``executed_words``: the same, with tools searched by pieces of words; ``strict``: exact JSON.

The file is on the hub, and in the repository's history: ``git show
1d76900:api-bank/test-data/level-3.json``.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from tutti.tasks.benchmarks.api_bank.gold import NO_FAULT
from tutti.tasks.benchmarks.api_bank.single_call import Turn, call_of, messages_of, parameters_of
from tutti.tasks.benchmarks.api_bank.tools import SEARCHER, SEARCHER_TOOL, Descriptions
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
                described = Descriptions.found(call.object("output"))
                found |= {one["function"]["name"]: one for one in described}
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
    """A gold call; `place` is its number in its sample. Raises BadRow."""
    return call_of(call, place, "input", "output", may_fail=True)
