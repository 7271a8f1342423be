"""Writes the replies of a part: a file a seed, a line a row, in the order of the rows.

In: the store. Out: ``output-rs{S}.jsonl``: each row's fields and the reply's. A file is written
when it is whole. Nothing in a line depends on when or how often the command ran: times, ids of
attempts and tool calls, and what an engine had cached are left out, unless they are asked for.

Solutions are combined as the harness combines them (`Combination`). The prompts of a seed are a
file of conversations, ``prompts/rs{S}/NAME-select.jsonl``, with a line a row; a row of which
nothing is to be asked, because its solutions are alike or none can be shown, is left out by its
field `asked`. So every row keeps its number, of which its calls' seeds are made.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from tutti.storage import query
from tutti.tasks.agents import Combination
from tutti.tasks.agents.models import AUTO, OFF, separated
from tutti.tasks.sweeps.generate.check import (
    CheckedFile,
    Solution,
    check_file,
    prompts_in,
    read_solutions,
)
from tutti.tasks.sweeps.generate.kept import Part, is_done
from tutti.tasks.sweeps.generate.request import (
    GenerateRequest,
    GivenSolutions,
    row_numbers,
    rows_in,
    write_whole,
)

MODES = {"select": "genselect", "synthesis": "gensynthesis"}
"""NeMo-Skills' names, with which its fields begin."""
MOST_CHARS = 16_384
"""A longer solution is not shown: the default of `harness.parallel`, and NeMo-Skills' own."""
ASKED, UNASKED = "yes", "no"


@dataclass(frozen=True)
class Prompts:
    """What is asked for the rows of a part."""

    request: GenerateRequest
    """The request whose rows are the prompts."""
    task_ids: tuple[str | None, ...]
    """Of each row of the file; None where nothing is to be asked."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be asked for any row of the request's chunk."""
        chosen = row_numbers(self.request, len(self.task_ids))
        return not any(self.task_ids[chosen.start : chosen.stop])


@dataclass(frozen=True)
class SolvedRow:
    """The solutions of a row, and how they are combined."""

    solutions: list[Solution]
    combination: Combination


def prompts_of(request: GenerateRequest, checked: CheckedFile, part: Part) -> Prompts:
    """What is asked for the part; of solutions, their prompts are written.

    Raises as `check_file`.
    """
    given = request.solutions
    if given is None:
        return Prompts(request, checked.task_ids)
    assert part.count == 1, "each seed draws other solutions, so it is a part of its own"
    chunk = "" if request.chunk is None else f"_chunk_{request.chunk}"
    folder = request.out / "prompts" / f"rs{part.first}{chunk}"
    file = folder / f"{request.file.stem}-{given.combine}.jsonl"
    is_asked = list[bool]()
    write_whole(file, _prompt_lines(request, checked, part.first, is_asked))
    settings = request.settings | {"question_field": "messages", "prompt": None}
    settings |= {"where": None if all(is_asked) else f"asked = '{ASKED}'"}
    served = replace(request, file=file, solutions=None, limit=None, settings=settings)
    tasks = check_file(served).task_ids
    return Prompts(
        served, tuple(task if asked else None for task, asked in zip(tasks, is_asked, strict=True))
    )


def solved_rows(
    request: GenerateRequest, checked: CheckedFile, seed: int, chosen: range
) -> Iterator[SolvedRow] | None:
    """The solutions of the chosen rows; None for a request without solutions."""
    given = request.solutions
    if given is None:
        return None
    return islice(_solved(request, given, checked, seed), chosen.start, chosen.stop)


def combined_fields(
    request: GenerateRequest, solved: SolvedRow, reply: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields of a line: the answer, and what NeMo-Skills says of how it was found.

    `reply`: the fields of the combining call's reply (`reply_fields`); empty if nothing was asked.
    """
    assert request.solutions is not None, "the row has solutions"
    mode, combination = MODES[request.solutions.combine], solved.combination
    key, tokens = request.key, reply.get("num_generated_tokens") or 0
    said = reply.get(f"_full_{key}", reply.get(key, ""))
    taken = combination.without_asking
    if taken is None:
        error = reply.get("error")
        taken = combination.draw(error) if error else combination.read(reply[key])
    shown = [solved.solutions[number] for number in combination.shown]
    total = sum(each.tokens for each in shown)
    answer = reply.get(key) if taken.number is None else solved.solutions[taken.number].text
    place = combination.shown.index(taken.number) if taken.number in combination.shown else None
    fields = {key: answer, "num_generated_tokens": total + tokens}
    fields |= {"num_input_tokens": reply.get("num_input_tokens") or 0}
    fields |= {"finish_reason": reply.get("finish_reason")}
    fields |= {name: reply[name] for name in ("reasoning_content",) if name in reply}
    fields |= {
        "solution_list": [each.text for each in shown],
        "solution_numbers": list(combination.shown),
        "selected_solution": place,
        f"{mode}_comparison": said,
        f"{mode}_successful": taken.error is None,
        f"{mode}_num_generated_tokens": tokens,
        "total_solution_generated_tokens": total,
    }
    if taken.number is not None:
        best = solved.solutions[taken.number].tokens
        fields |= {"num_best_solution_generated_tokens": best}
    if taken.error is not None:
        fields |= {f"{mode}_error": taken.error}
    return fields


def _solved(
    request: GenerateRequest, given: GivenSolutions, checked: CheckedFile, seed: int
) -> Iterator[SolvedRow]:
    read = read_solutions(request, given, len(checked.task_ids))
    for task_id, solutions in zip(checked.task_ids, read, strict=True):
        texts, draw = [each.text for each in solutions], f"{seed} {task_id}"
        combination = Combination(given.combine, texts, MOST_CHARS, draw, given.window)
        yield SolvedRow(solutions, combination)


def _prompt_lines(
    request: GenerateRequest, checked: CheckedFile, seed: int, is_asked: list[bool]
) -> Iterator[str]:
    """A line a row; `is_asked` is extended by whether the row is asked."""
    assert request.solutions is not None, "the rows have solutions"
    solved_of = _solved(request, request.solutions, checked, seed)
    for (item, messages), solved in zip(prompts_in(request), solved_of, strict=True):
        asked = solved.combination.without_asking is None
        is_asked.append(asked)
        nothing = [{"role": "user", "content": "Nothing is asked."}]
        prompt = solved.combination.prompt(messages) if asked else nothing
        row = {"messages": prompt, "asked": ASKED if asked else UNASKED}
        if request.solutions.combine == "synthesis":  # whose reply `tutti score` can score
            row |= {name: value for name, value in item.target.items() if name == "answer"}
        yield json.dumps(row, ensure_ascii=False)


CELL = """
select cell_id from cells where sweep_id = $sweep and concurrency = $concurrency and repeat = 0
  and policy = 'passthrough' and status <> 'superseded'
"""
ATTEMPTS = """
select task_id, attempt_id, status, error_type, error_message, prompt_tokens, completion_tokens,
       tool_calls, started_at, ended_at
from attempts
where cell_id = $cell and trial = $seed and status not in ('infra_error', 'cancelled')
qualify row_number() over (partition by task_id order by attempt desc) = 1
"""
ENDS = """
select c.attempt_id, c.finish_reason from calls c
where c.cell_id = $cell and c.role = 'orchestrator' and c.finish_reason is not null
  and c.attempt_id in (select attempt_id from attempts where cell_id = $cell and trial = $seed)
qualify row_number() over (partition by c.attempt_id order by c.step desc, c.ended_at desc) = 1
"""
MESSAGES = """
select attempt_id, position, role, content, reasoning, tool_calls, tool_call_id, name, call_id
from messages
where cell_id = $cell
  and attempt_id in (select attempt_id from attempts where cell_id = $cell and trial = $seed)
order by attempt_id, position
"""
Found = Mapping[str, Any]
CUT = ("length", "max_tokens")
"""Finish reasons of replies that were cut off by their length limit."""


@dataclass(frozen=True)
class SeedFile:
    """A file that was written."""

    path: Path
    rows: int
    cut: int
    """Rows whose reply ended by its length limit."""


def write_seeds(
    request: GenerateRequest,
    checked: CheckedFile,
    prompts: Prompts,
    part: Part,
    sweep_id: str | None,
) -> list[SeedFile]:
    """Write the files of the part's seeds whose rows all have replies; returns those written.

    `sweep_id` is None where nothing had to be asked.
    """
    written = []
    chosen = row_numbers(request, len(checked.task_ids))
    tasks = prompts.task_ids[chosen.start : chosen.stop]
    where = {"sweep": sweep_id, "concurrency": part.concurrency}
    cells = query(CELL, parameters=where) if sweep_id is not None else []
    for seed in part.seeds:
        replies = _replies(cells[0]["cell_id"], seed) if cells else {}
        asked = [task for task in tasks if task is not None]
        if is_done(request, seed) or not all(task in replies for task in asked):
            continue
        path = request.path_of(seed, request.chunk)
        write_whole(path, _lines(request, checked, prompts, seed, replies))
        cut = sum(replies[task]["finish_reason"] in CUT for task in asked)
        written.append(SeedFile(path, len(tasks), cut))
    return written


def _replies(cell_id: str, seed: int) -> dict[str, dict[str, Any]]:
    """What came of each task at a seed: by task id its attempt, `finish_reason` and `messages`."""
    of = {"cell": cell_id, "seed": seed}
    ends = {row["attempt_id"]: row["finish_reason"] for row in query(ENDS, parameters=of)}
    rows = query(MESSAGES, parameters=of)
    messages = {a: list(each) for a, each in groupby(rows, key=lambda row: row["attempt_id"])}
    return {
        row["task_id"]: row
        | {
            "finish_reason": ends.get(row["attempt_id"]),
            "messages": messages.get(row["attempt_id"], []),
        }
        for row in query(ATTEMPTS, parameters=of)
    }


def _lines(
    request: GenerateRequest,
    checked: CheckedFile,
    prompts: Prompts,
    seed: int,
    replies: Mapping[str, Found],
) -> Iterator[str]:
    chosen = row_numbers(request, len(checked.task_ids))
    tasks = prompts.task_ids[chosen.start : chosen.stop]
    combined = solved_rows(request, checked, seed, chosen)
    for task_id, row in zip(tasks, rows_in(request, chosen), strict=True):
        found = None if task_id is None else replies[task_id]
        fields = {} if found is None else reply_fields(found, request.key, request.reasoning)
        if combined is not None:
            fields = combined_fields(request, next(combined), fields)
        if request.times and found is not None:
            fields |= _times(found)
        yield json.dumps({**row, **fields}, ensure_ascii=False)


def reply_fields(found: Found, key: str, reasoning: str = AUTO) -> dict[str, Any]:
    """The fields of a reply that do not depend on the run.

    Where `reasoning` names an end tag, with the two further fields of NeMo-Skills'
    `parse_reasoning`: the whole reply, and whether it has the tag.
    """
    made = [each for each in found["messages"] if each["call_id"] is not None]
    said: Found = made[-1] if made else {}
    last = separated(said, reasoning)
    fields = {
        key: last.get("content") or "",
        "num_generated_tokens": found["completion_tokens"],
        "num_input_tokens": found["prompt_tokens"],
        "finish_reason": found["finish_reason"],
    }
    if last.get("reasoning") is not None:
        fields["reasoning_content"] = last["reasoning"]
    if reasoning not in (AUTO, OFF):
        whole = said.get("content") or ""
        if said.get("reasoning") is not None:  # by the endpoint, which leaves out the tag
            whole = said["reasoning"] + (reasoning + whole if whole else "")
        fields |= {f"_full_{key}": whole, f"_{key}_finished_thinking": reasoning in whole}
    if found["tool_calls"]:
        fields |= {"num_tool_calls": found["tool_calls"], "conversation": _conversation(found)}
    if found["error_type"] is not None:
        fields |= {"error": found["error_type"], "detailed_error": found["error_message"]}
    return fields


def _conversation(found: Found) -> list[dict[str, Any]]:
    """What followed the prompt. Calls are numbered: their ids are drawn anew in each run."""
    messages = found["messages"]
    first = next((n for n, each in enumerate(messages) if each["call_id"]), len(messages))
    numbers: dict[str, str] = {}
    said = []
    for each in messages[first:]:
        message = {"role": each["role"], "content": each["content"]}
        calls = []
        for call in each["tool_calls"] or ():
            number = numbers.setdefault(call["id"], f"call-{len(numbers)}")
            function = {"name": call["name"], "arguments": call["arguments"]}
            calls.append({"id": number, "type": "function", "function": function})
        message |= {"tool_calls": calls} if calls else {}
        if each["tool_call_id"] is not None:
            answered = numbers.get(each["tool_call_id"], each["tool_call_id"])
            message |= {"tool_call_id": answered, "name": each["name"]}
        said.append(message)
    return said


def _times(found: Found) -> dict[str, Any]:
    """In seconds; starts and ends since 1970."""
    started: datetime = found["started_at"]
    ended: datetime = found["ended_at"]
    return {
        "generation_start_time": started.timestamp(),
        "generation_end_time": ended.timestamp(),
        "generation_time": (ended - started).total_seconds(),
        "attempt_id": found["attempt_id"],
    }
