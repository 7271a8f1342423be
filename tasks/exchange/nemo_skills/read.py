"""Import of what NeMo-Skills generated and graded.

In: an ``output-rs{seed}.jsonl``, ``output.jsonl`` or one of their chunks; a benchmark's folder; or
the results' folder (with or without ``eval-results``) of all benchmarks. The folder's name is the
benchmark, and the seed is the trial. ``output.jsonl`` is greedy decoding and becomes a separate
run.

Rows hold the benchmark's own fields beside the answer. The task is the row's id, or the hash of its
problem where there is none. Rows name neither the model nor the rendered prompt. The model is
therefore "unknown", and the first message is the benchmark's problem, unless the row holds the
conversation. ``.jsonl-async`` files belong to jobs that are still running; they are reported and
not imported.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tutti.storage import content_hash, foreign_error
from tutti.tasks.exchange.chat import add_call, link_calls, message_rows, tool_runs
from tutti.tasks.exchange.fields import LOGPROBS, Fields, compact, detail_text, records, take
from tutti.tasks.exchange.imported import Cell, ImportedAttempt, ImportedItem, ImportIssue, Row

MODES = {"genselect": ("select", "selector"), "gensynthesis": ("synthesis", "synthesizer")}
"""Their mode: our run's name, and the role of the combining call."""
SUMS = frozenset({"completion_tokens", "prompt_tokens", "latency_s", "logprobs"})
SUMS |= {"sent_at", "admitted_at", "ended_at"}
"""Figures that a row has for all calls together."""
THINKING = (
    "_generation_finished_thinking",
    "genselect_successful",
    "gensynthesis_successful",
    "total_solution_generated_tokens",
    "num_best_solution_generated_tokens",
)
"""Fields without a column here."""


@dataclass(frozen=True)
class ParallelThinking:
    """The solutions of a row with `solution_list`, and the call that combined them.

    As tutti's own parallel thinking stores them: a run `solution` each, and one `select` or
    `synthesis` with the combining call's text. The row's `num_generated_tokens` is the sum over all
    calls and stays the attempt's; the tokens of the solutions are only known together. The row does
    not name the solution that was taken: it is found by its text.
    """

    runs: list[Row]
    combining_call: Row | None
    """None where nothing was asked: there was no solution."""

    def calls(self, found: Sequence[Row]) -> list[Row]:
        """The answer's call, without the figures that are of all, and the combining one."""
        kept = [{name: call[name] for name in call.keys() - SUMS} for call in found]
        return [*kept, self.combining_call] if self.combining_call is not None else kept


def parallel_thinking(fields: Fields) -> ParallelThinking | None:
    """What the row says of it; None for a row without."""
    mode = next((mode for mode in MODES if f"{mode}_comparison" in fields), None)
    if mode is None or not isinstance(fields.data.get("solution_list"), list):
        return None
    combine, role = MODES[mode]
    solutions = fields.array("solution_list")
    if not all(isinstance(text, str) for text in solutions):
        fields.wrong("solution_list", "a list of texts")
        return None
    said = fields.text(f"{mode}_comparison")
    runs = [
        _run("solution", {"number": number}, text, "ok") for number, text in enumerate(solutions)
    ]
    if not solutions:
        return ParallelThinking(runs, None)
    worked = fields.flag(f"{mode}_successful")
    error = {"error_type": "no_verdict"} if worked is False else {}
    answer = fields.text("generation")
    taken = {"taken": solutions.index(answer)} if answer in solutions else {}
    status = "error" if error else "ok"
    runs.append(_run(combine, taken, said or "", status) | error)
    tokens = fields.count(f"{mode}_num_generated_tokens")
    call: Row = {"call_id": "call-combine", "step": 1, "role": role, "status": "ok"}
    return ParallelThinking(runs, call | compact(completion_tokens=tokens))


def _run(name: str, arguments: dict[str, int], result: str, status: str) -> Row:
    return {
        "step": 1,
        "name": name,
        "arguments": json.dumps(arguments),
        "result": result,
        "status": status,
    }


NAME = re.compile(r"output(?:-rs(?P<seed>\d+))?(?:_chunk_(?P<chunk>\d+))?\.jsonl(?:\.gz)?")
ASYNC = "-async"
IDS = ("id", "problem_id", "task_id", "question_id", "instance_id")
PROBLEMS = ("problem", "question", "prompt", "messages", "input")
GENERATIONS = ("generation", "response", "completion")
TOLD = (
    "expected_answer",
    "judgement",
    "expected_judgement",
    "judgement-gen-base",
    "judgement-base-gen",
    "error",
    "detailed_error",
    "code_rounds_executed",
    "code_execution_time",
    "num_code_timeouts",
    "stopped_on_repetition",
    "num_reasoning_tokens",
    "num_answer_tokens",
    *THINKING,
)
"""Fields of a row without a column here, kept in the detail of its main score."""
JUDGEMENT = "Judgement:"
VERDICTS = (
    re.compile(r"\A\s*(correct|incorrect|not_attempted)", re.IGNORECASE),
    re.compile(r"\A\s*([ABC])(?:\W|\Z)"),
)
CONTEXT_ERROR = "context_window_exceeded"
CUT_SHORT = ("length", "incomplete")

Files = list[tuple[Path, int | None, int | None]]
"""Files with their seeds and chunks."""


def read(path: Path, run: str) -> Iterator[ImportedItem]:
    """The trials in `path`, and the issues. `run` names the run."""
    folders = [path.parent] if path.is_file() else _folders(path)
    if not folders:
        yield ImportIssue(path, None, "", "has no output.jsonl or output-rs*.jsonl")
    for folder in folders:
        found = [path] if path.is_file() else sorted(folder.glob("output*"))
        yield from _read_folder(found, folder.resolve().name or run, run)


def _folders(path: Path) -> list[Path]:
    if _has_output(path):
        return [path]
    root = path / "eval-results"
    root = root if root.is_dir() else path
    return sorted(f for f in root.glob("*") if f.is_dir() and _has_output(f))


def _has_output(folder: Path) -> bool:
    return any(".jsonl" in file.name for file in folder.glob("output*"))


def _read_folder(found: list[Path], benchmark: str, run: str) -> Iterator[ImportedItem]:
    files: Files = []
    for file in found:
        match = NAME.fullmatch(file.name)
        if match:
            files.append((file, _number(match["seed"]), _number(match["chunk"])))
        elif file.name.endswith(f".jsonl{ASYNC}"):
            whole = file.name.removesuffix(ASYNC)
            reason = f"is of a job that has not ended: import {whole} when it is there"
            yield ImportIssue(file, None, "", reason)
        elif len(found) == 1:
            yield ImportIssue(file, None, "", "is not an output.jsonl or output-rs{seed}.jsonl")
    whole_seeds = {seed for _, seed, chunk in files if chunk is None}
    readers: dict[int | None, _Reader] = {}
    files.sort(key=lambda file: [-1 if number is None else number for number in file[1:]])
    for file, seed, chunk in files:
        if chunk is not None and seed in whole_seeds:
            yield ImportIssue(file, None, "", "is not taken: its seed's merged file is there")
            continue
        reader = readers.setdefault(seed, _Reader(benchmark, run, seed))
        yield from take(records(file), reader.trials_of)


def _number(digits: str | None) -> int | None:
    return None if digits is None else int(digits)


@dataclass
class _Reader:
    benchmark: str
    run: str
    seed: int | None
    seen: Counter[str] = field(default_factory=Counter)
    """Occurrences of each task id: a second occurrence is another task."""

    def trials_of(self, fields: Fields) -> list[ImportedItem]:
        task_id = _task_id(fields)
        self.seen[task_id] += 1
        if (times := self.seen[task_id]) > 1:
            task_id = f"{task_id}#{times}"
        run = f"{self.run}/greedy" if self.seed is None else self.run
        cell = Cell(run, self.benchmark, "unknown")
        trial = ImportedAttempt(cell, task_id, self.seed or 0, file=fields.file, line=fields.line)
        trial.messages, trial.calls = _conversation(fields)
        trial.tool_runs = tool_runs(trial.messages, trial.calls)
        if (combined := parallel_thinking(fields)) is not None:
            trial.calls, trial.tool_runs = combined.calls(trial.calls), combined.runs
        trial.outcome = _outcome(fields, trial)
        _score(fields, trial)
        return [trial]


def _task_id(fields: Fields) -> str:
    for name in IDS:
        if name in fields and (found := fields.identity(name)):
            return found
    for name in PROBLEMS:
        if name in fields:
            return content_hash(fields.data[name])[:16]
    fields.refuse("", f"has no {', '.join(IDS + PROBLEMS)} to tell its task by")


def _conversation(fields: Fields) -> tuple[list[Row], list[Row]]:
    """Messages and calls. With tools the row has all of them; otherwise only problem and answer."""
    reasons = _each_step(fields, "finish_reason")
    calls: list[Row] = []
    status = "error" if "error" in fields else "ok"
    if "conversation" in fields:
        messages = message_rows(fields, "conversation")
        said = [row for row in messages if row["role"] == "assistant"]
        said = said[-len(reasons) :] if reasons else said  # those before are examples
        for place in range(len(reasons or said)):
            reason = reasons[place] if reasons else None
            add_call(calls, status=status, finish_reason=reason)
        link_calls(said, calls)
        return messages, calls
    asked = next((name for name in PROBLEMS if name in fields), None)
    messages = message_rows(fields, asked) if asked else []
    reason = reasons[0] if reasons else None
    call = add_call(calls, status=status, finish_reason=reason, **_timing(fields))
    answer = {"role": "assistant", "content": _generation(fields), "call_id": call["call_id"]}
    return [*messages, answer | compact(reasoning=_reasoning(fields))], calls


def _each_step(fields: Fields, name: str) -> list[str]:
    """With tools, a field is a list with its value in every step."""
    value = fields.data.get(name)
    if not isinstance(value, list):
        found = fields.text(name)
        return [] if found is None else [found]
    if all(isinstance(step, str) for step in value):
        return value
    fields.wrong(name, "text or a list of texts")
    return []


def _generation(fields: Fields) -> str:
    for name in GENERATIONS:
        if name in fields:
            return fields.needed(name, fields.text(name))
    fields.refuse("generation", "is missing")


def _reasoning(fields: Fields) -> str | None:
    """The reasoning: given separately, or split from the start of the answer."""
    given = _each_step(fields, "reasoning_content")
    if given:
        return "\n".join(given)
    key = next((name for name in GENERATIONS if name in fields), GENERATIONS[0])
    full, answer = fields.text(f"_full_{key}"), _generation(fields)
    if full is None or full == answer:
        return None
    return full.rstrip().removesuffix(answer) or None  # the answer lost its blanks by the split


def _timing(fields: Fields) -> Row:
    """The figures of a single call; with tools they are sums over all calls."""
    sent = fields.epoch("generation_start_time")
    return compact(
        sent_at=sent,
        admitted_at=sent,
        ended_at=fields.epoch("generation_end_time"),
        latency_s=fields.amount("generation_time"),
        prompt_tokens=fields.count("num_input_tokens"),
        completion_tokens=fields.count("num_generated_tokens"),
        logprobs=fields.read("logprobs", LOGPROBS) or None,
    )


def _outcome(fields: Fields, trial: ImportedAttempt) -> Row:
    error = fields.text("error")
    last = trial.calls[-1].get("finish_reason") if trial.calls else None
    status = "limit" if error == CONTEXT_ERROR or last in CUT_SHORT else "ok"
    if error and error != CONTEXT_ERROR:
        status = "infra_error"
    return (
        {"status": status}
        | foreign_error(error)
        | compact(
            stop_reason=error or last,
            started_at=fields.epoch("generation_start_time"),
            ended_at=fields.epoch("generation_end_time"),
            working_s=fields.amount("generation_time"),
            tool_calls=fields.count("num_tool_calls"),
            prompt_tokens=fields.count("num_input_tokens"),
            completion_tokens=fields.count("num_generated_tokens"),
            answer=_answer(fields),
        )
    )


def _answer(fields: Fields) -> str | None:
    value = fields.data.get("predicted_answer")
    return value if isinstance(value, str) else fields.json("predicted_answer")


def _score(fields: Fields, trial: ImportedAttempt) -> None:
    if trial.outcome["status"] == "infra_error":
        return
    for name, scorer, value_of in METRICS:
        if name not in fields:
            continue
        value = value_of(fields, name)
        row = {"scorer": scorer} | compact(value=value, answer=trial.outcome.get("answer"))
        if value in (0.0, 1.0):
            row["correct"] = value == 1.0
        if not trial.scores:
            trial.outcome |= compact(score=value, correct=row.get("correct"))
            told = {key: fields.data.get(key) for key in TOLD}
            row |= compact(detail=detail_text(**told))
        trial.scores.append(row)


def _mark(fields: Fields, name: str) -> float | None:
    """True and false are 1 and 0 here; other numbers are as they are."""
    value = fields.data[name]
    return float(value) if isinstance(value, bool) else fields.number(name)


def _judged(fields: Fields, name: str) -> float | None:
    """A judge's verdict: yes or no, correct or incorrect, or SimpleQA's letters."""
    text = fields.text(name)
    if text is None:
        return None
    if JUDGEMENT in text:  # theirs: what the last one does not begin with "yes" is wrong
        return float(text.rpartition(JUDGEMENT)[2].strip().lower().startswith("yes"))
    for verdict in VERDICTS:
        if found := verdict.findall(text):
            return float(found[-1].lower() in ("yes", "correct", "a"))
    fields.wrong(name, "a judge's verdict")
    return None


def _agrees(fields: Fields, name: str) -> float | None:
    """Whether a judge under test agrees with the human label."""
    wanted, given = _judged(fields, name), _judged(fields, "judgement")
    return None if wanted is None else float(wanted == given)


def _unnumbered(fields: Fields, name: str) -> None:
    """A verdict between two answers: the preferred one is in the detail, and there is no number."""
    fields.text(name)


def _first(fields: Fields, name: str) -> float | None:
    values = fields.array(name)
    if values and not isinstance(values[0], bool):
        fields.problem(f"{name}.0", f"{values[0]!r} is not true or false")
    return float(values[0]) if values and isinstance(values[0], bool) else None


def _equals(fields: Fields, name: str, wanted: str) -> float | None:
    text = fields.text(name)
    return None if text is None else float(text == wanted)


def _within(fields: Fields, name: str, inner: str) -> float | None:
    found = fields.inner(name).flag(inner)
    return None if found is None else float(found)


FOLLOWED = partial(_within, inner="follow_all_instructions")
METRICS: tuple[tuple[str, str, Callable[[Fields, str], float | None]], ...] = (
    ("expected_judgement", "correct_judgement", _agrees),
    ("judgement", "judge_correct", _judged),
    ("judgement-gen-base", "judgement-gen-base", _unnumbered),
    ("judgement-base-gen", "judgement-base-gen", _unnumbered),
    ("symbolic_correct", "symbolic_correct", _mark),
    ("is_correct", "is_correct", _mark),
    ("is_correct-plus", "is_correct-plus", _mark),
    ("graded_list", "graded_list", _first),
    ("is_passed", "is_passed", _mark),
    ("proof_status", "lean4_correct", partial(_equals, wanted="completed")),
    ("status", "passed", partial(_equals, wanted="pass")),
    ("seq_match_ratio", "seq_match_ratio", _mark),
    ("strict_eval", "strict_follow_all", FOLLOWED),
    ("loose_eval", "loose_follow_all", FOLLOWED),
    ("swe-bench-metrics", "issues_resolved", partial(_within, inner="resolved")),
    ("reward_model_score", "reward_model_score", _mark),
)
"""Fields that graders write, as scores; the first present one sets score and correct."""
