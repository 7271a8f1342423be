"""Writing the replies of a part: one file per seed, one line per row, in the order of the rows.

In: the store. Out: ``output-rs{S}.jsonl``, written when it is complete. Without `times`, nothing in
a line depends on when or how often the command ran. With solutions (`Combination`) the prompts of a
seed are a file of conversations, ``prompts/rs{S}/NAME-select.jsonl``, with one line per row. A row
that needs no call is left out by its field `asked`, so that every row keeps its number, from which
its calls' seeds are derived.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from tutti.storage import query
from tutti.tasks.agents import Combination
from tutti.tasks.agents.models import AUTO, OFF, separated
from tutti.tasks.sweeps.generate import check
from tutti.tasks.sweeps.generate.request import (
    GenerateRequest,
    GivenSolutions,
    write_whole,
)
from tutti.tasks.sweeps.generate.work import Part

MODES = {"select": "genselect", "synthesis": "gensynthesis"}
"""NeMo-Skills' names, with which its fields begin."""
MOST_CHARS = 16_384
"""A longer solution is not shown: the default of `harness.parallel`, and NeMo-Skills' own."""
ASKED, UNASKED = "yes", "no"
NO_PROMPT = [{"role": "user", "content": "Nothing is asked."}]


@dataclass(frozen=True)
class Prompts:
    """The prompts of a part."""

    request: GenerateRequest
    task_ids: tuple[str | None, ...]
    """The id of each row of the request's chunk; None where the row needs no call."""


@dataclass(frozen=True)
class SolvedRow:
    """The solutions of a row, and how they are combined."""

    solutions: list[check.Solution]
    combination: Combination


def prompts_of(request: GenerateRequest, checked: check.CheckedFile, part: Part) -> Prompts:
    """The prompts of the part; write those that combine solutions. Raises as `check_file`."""
    given, rows = request.solutions, len(checked.task_ids)
    chosen = request.row_numbers(rows)
    if given is None:
        return Prompts(request, checked.task_ids[chosen.start : chosen.stop])
    assert part.count == 1, "each seed draws other solutions, so it is a part of its own"
    is_asked = list[bool]()

    def lines() -> Iterator[str]:
        solved_rows = _solved(request, given, checked, part.first)
        for (task, messages), solved in zip(check.prompts_in(request), solved_rows, strict=True):
            asked = solved.combination.without_asking is None
            is_asked.append(asked)
            prompt = solved.combination.prompt(messages) if asked else NO_PROMPT
            row: dict[str, Any] = {"messages": prompt, "asked": ASKED if asked else UNASKED}
            if given.combine == "synthesis" and "answer" in task.target:  # for `tutti score`
                row["answer"] = task.target["answer"]
            yield json.dumps(row, ensure_ascii=False)

    chunk = "" if request.chunk is None else f"_chunk_{request.chunk}"
    folder = request.out / "prompts" / f"rs{part.first}{chunk}"
    file = folder / f"{request.file.stem}-{given.combine}.jsonl"
    write_whole(file, lines())
    settings = request.settings | {"question_field": "messages", "prompt": None}
    settings |= {"where": None if all(is_asked) else f"asked = '{ASKED}'"}
    served = replace(request, file=file, solutions=None, limit=None, settings=settings)
    pairs = zip(check.check_file(served).task_ids, is_asked, strict=True)
    tasks = [task if asked else None for task, asked in pairs]
    return Prompts(served, tuple(tasks[chosen.start : chosen.stop]))


def _solved(
    request: GenerateRequest, given: GivenSolutions, checked: check.CheckedFile, seed: int
) -> Iterator[SolvedRow]:
    read = check.read_solutions(request, given, len(checked.task_ids))
    for task_id, solutions in zip(checked.task_ids, read, strict=True):
        texts, draw = [each.text for each in solutions], f"{seed} {task_id}"
        combination = Combination(given.combine, texts, MOST_CHARS, draw, given.window)
        yield SolvedRow(solutions, combination)


def combined_fields(
    request: GenerateRequest, solved: SolvedRow, reply: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields of a line: the answer, and NeMo-Skills' fields about its choice.

    `reply`: the fields of the combining call's reply (`reply_fields`); empty without a call.
    """
    assert request.solutions is not None, "the row has solutions"
    mode, combination = MODES[request.solutions.combine], solved.combination
    key, tokens = request.key, reply.get("num_generated_tokens") or 0
    taken = combination.without_asking
    if taken is None:
        error = reply.get("error")
        taken = combination.draw(error) if error else combination.read(reply[key])
    best = None if taken.number is None else solved.solutions[taken.number]
    shown = [solved.solutions[number] for number in combination.shown]
    place = combination.shown.index(taken.number) if taken.number in combination.shown else None
    total = sum(each.tokens for each in shown)
    fields = {
        key: reply.get(key) if best is None else best.text,
        "num_generated_tokens": total + tokens,
        "num_input_tokens": reply.get("num_input_tokens") or 0,
        "finish_reason": reply.get("finish_reason"),
    }
    if "reasoning_content" in reply:
        fields["reasoning_content"] = reply["reasoning_content"]
    fields |= {
        "solution_list": [each.text for each in shown],
        "solution_numbers": list(combination.shown),
        "selected_solution": place,
        f"{mode}_comparison": reply.get(f"_full_{key}", reply.get(key, "")),
        f"{mode}_successful": taken.error is None,
        f"{mode}_num_generated_tokens": tokens,
        "total_solution_generated_tokens": total,
    }
    if best is not None:
        fields["num_best_solution_generated_tokens"] = best.tokens
    if taken.error is not None:
        fields[f"{mode}_error"] = taken.error
    return fields


CELL = """
select cell_id from cells where sweep_id = $sweep and concurrency = $concurrency and repeat = 0
  and policy = 'passthrough' and status <> 'superseded'
"""
# The last attempt that counts of each task at a seed, with its last finish reason and its messages.
REPLIES = """
with mine as (
    select task_id, attempt_id, status, error_type, error_message, prompt_tokens, completion_tokens,
           tool_calls, started_at, ended_at
    from attempts
    where cell_id = $cell and trial = $seed and status not in ('infra_error', 'cancelled')
    qualify row_number() over (partition by task_id order by attempt desc) = 1
),
ends as (
    select attempt_id, arg_max(finish_reason, (step, ended_at)) as finish_reason from calls
    where cell_id = $cell and role = 'orchestrator' and finish_reason is not null
      and attempt_id in (select attempt_id from mine)
    group by attempt_id
)
select mine.*, finish_reason from mine left join ends using (attempt_id)
"""
MESSAGES = """
select attempt_id, position, role, content, reasoning, tool_calls, tool_call_id, name, call_id
from messages
where cell_id = $cell
  and attempt_id in (select attempt_id from attempts where cell_id = $cell and trial = $seed)
order by attempt_id, position
"""
Attempt = Mapping[str, Any]
CUT = ("length", "max_tokens")
"""Finish reasons of replies that were cut off by their length limit."""


def write_seeds(
    request: GenerateRequest,
    checked: check.CheckedFile,
    prompts: Prompts,
    part: Part,
    sweep_id: str | None,
) -> dict[Path, int]:
    """Write the files of the part's seeds whose rows all have replies; return them, each with the
    number of replies that were cut off by their length limit.

    `sweep_id` is None if no row needed a call.
    """
    written = {}
    where = {"sweep": sweep_id, "concurrency": part.concurrency}
    cells = query(CELL, parameters=where) if sweep_id is not None else []
    asked = [task for task in prompts.task_ids if task is not None]
    for seed in part.seeds:
        replies = _replies(cells[0]["cell_id"], seed) if cells else {}
        if request.is_done(seed) or not all(task in replies for task in asked):
            continue
        path = request.path_of(seed, request.chunk)
        write_whole(path, _lines(request, checked, prompts, seed, replies))
        written[path] = sum(replies[task]["finish_reason"] in CUT for task in asked)
    return written


def _replies(cell_id: str, seed: int) -> dict[str, Attempt]:
    of = {"cell": cell_id, "seed": seed}
    rows = query(MESSAGES, parameters=of)
    messages = {a: list(each) for a, each in groupby(rows, key=lambda row: row["attempt_id"])}
    return {
        row["task_id"]: row | {"messages": messages.get(row["attempt_id"], [])}
        for row in query(REPLIES, parameters=of)
    }


def _lines(
    request: GenerateRequest,
    checked: check.CheckedFile,
    prompts: Prompts,
    seed: int,
    replies: Mapping[str, Attempt],
) -> Iterator[str]:
    chosen = request.row_numbers(len(checked.task_ids))
    given, solved = request.solutions, None
    if given is not None:
        solved = islice(_solved(request, given, checked, seed), chosen.start, chosen.stop)
    for task_id, row in zip(prompts.task_ids, request.rows(chosen), strict=True):
        reply = None if task_id is None else replies[task_id]
        fields = {} if reply is None else reply_fields(reply, request.key, request.reasoning)
        if solved is not None:
            fields = combined_fields(request, next(solved), fields)
        if request.times and reply is not None:
            start, end = (reply[name].timestamp() for name in ("started_at", "ended_at"))
            fields |= {"generation_start_time": start, "generation_end_time": end}
            fields |= {"generation_time": (reply["ended_at"] - reply["started_at"]).total_seconds()}
            fields |= {"attempt_id": reply["attempt_id"]}
        yield json.dumps({**row, **fields}, ensure_ascii=False)


def reply_fields(attempt: Attempt, key: str, reasoning: str = AUTO) -> dict[str, Any]:
    """Return the fields of a reply that do not depend on the run.

    If `reasoning` names an end tag, they include the two further fields of NeMo-Skills'
    `parse_reasoning`: the whole reply, and whether it has the tag.
    """
    replies = [each for each in attempt["messages"] if each["call_id"] is not None]
    stored: Attempt = replies[-1] if replies else {}
    last = separated(stored, reasoning)
    fields = {
        key: last.get("content") or "",
        "num_generated_tokens": attempt["completion_tokens"],
        "num_input_tokens": attempt["prompt_tokens"],
        "finish_reason": attempt["finish_reason"],
    }
    if last.get("reasoning") is not None:
        fields["reasoning_content"] = last["reasoning"]
    if reasoning not in (AUTO, OFF):
        whole = stored.get("content") or ""
        if stored.get("reasoning") is not None:  # by the endpoint, which leaves out the tag
            whole = stored["reasoning"] + (reasoning + whole if whole else "")
        fields |= {f"_full_{key}": whole, f"_{key}_finished_thinking": reasoning in whole}
    if attempt["tool_calls"]:
        fields |= {"num_tool_calls": attempt["tool_calls"], "conversation": _conversation(attempt)}
    if attempt["error_type"] is not None:
        fields |= {"error": attempt["error_type"], "detailed_error": attempt["error_message"]}
    return fields


def _conversation(attempt: Attempt) -> list[dict[str, Any]]:
    """The messages after the prompt. Calls are numbered, because their ids differ in each run."""
    messages = attempt["messages"]
    first = next((n for n, each in enumerate(messages) if each["call_id"]), len(messages))
    numbers: dict[str, str] = {}
    conversation = []
    for each in messages[first:]:
        message = {"role": each["role"], "content": each["content"]}
        calls = []
        for call in each["tool_calls"] or ():
            number = numbers.setdefault(call["id"], f"call-{len(numbers)}")
            function = {"name": call["name"], "arguments": call["arguments"]}
            calls.append({"id": number, "type": "function", "function": function})
        if calls:
            message["tool_calls"] = calls
        if (call_id := each["tool_call_id"]) is not None:
            message |= {"tool_call_id": numbers.get(call_id, call_id), "name": each["name"]}
        conversation.append(message)
    return conversation
