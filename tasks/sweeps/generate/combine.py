"""What the rows of a part are asked: the rows themselves, or to combine their solutions.

Solutions are combined as the harness combines them (`Combination`). The prompts of a seed are a
file of conversations, ``prompts/rs{S}/NAME-select.jsonl``, with a line a row; a row of which
nothing is to be asked, because its solutions are alike or none can be shown, is left out by its
field `asked`. So every row keeps its number, of which its calls' seeds are made.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from tutti.tasks.agents import Combination
from tutti.tasks.sweeps.generate.check import CheckedFile, check_file, prompts_in
from tutti.tasks.sweeps.generate.kept import Part
from tutti.tasks.sweeps.generate.request import GenerateRequest, GivenSolutions
from tutti.tasks.sweeps.generate.rows import row_numbers, write_whole
from tutti.tasks.sweeps.generate.solutions import Solution, read_solutions

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
