"""Import of NeMo-Skills' generated and graded outputs.

In: an ``output-rs{seed}.jsonl``, ``output.jsonl`` (greedy decoding, a run of its own) or a chunk; a
benchmark's folder; or the results' folder of all. The folder's name is the benchmark, the seed the
trial, the row's id (else its problem's hash) the task. Rows name neither the model nor the rendered
prompt: the model is "unknown", the first message the problem. Files of running jobs
(``.jsonl-async``) are reported. A row of parallel thinking has the tool runs that tutti stores for
it; its figures are of all calls together, and the chosen solution is identified by its text.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tutti.storage import content_hash, foreign_error
from tutti.tasks.exchange.base.chat import add_call, link_calls, message_rows, tool_runs
from tutti.tasks.exchange.base.fields import LOGPROBS, Fields, compact, detail_text, records, take
from tutti.tasks.exchange.base.imported import Cell, ImportedAttempt, ImportedItem, ImportIssue, Row

MODES = {"genselect": ("select", "selector"), "gensynthesis": ("synthesis", "synthesizer")}
"""Their mode of parallel thinking: our run's name, and the role of the combining call."""
SUMS = frozenset({"completion_tokens", "prompt_tokens", "latency_s", "logprobs"})
SUMS |= {"sent_at", "admitted_at", "ended_at"}
"""Figures that a row of parallel thinking has for all calls together."""
NAME = re.compile(r"output(?:-rs(?P<seed>\d+))?(?:_chunk_(?P<chunk>\d+))?\.jsonl(?:\.gz)?")
ASYNC = "-async"
IDS = ("id", "problem_id", "task_id", "question_id", "instance_id")
PROBLEMS = ("problem", "question", "prompt", "messages", "input")
GENERATIONS = ("generation", "response", "completion")
DETAILS = (
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
    "_generation_finished_thinking",
    "genselect_successful",
    "gensynthesis_successful",
    "total_solution_generated_tokens",
    "num_best_solution_generated_tokens",
)
"""Fields of a row without a column here, stored in the detail of its main score."""
JUDGEMENT = "Judgement:"
VERDICTS = (
    re.compile(r"\A\s*(correct|incorrect|not_attempted)", re.IGNORECASE),
    re.compile(r"\A\s*([ABC])(?:\W|\Z)"),
)
CONTEXT_ERROR = "context_window_exceeded"
CUT_SHORT = ("length", "incomplete")


def read(path: Path, run: str) -> Iterator[ImportedItem]:
    """The trials in `path`, and the issues. `run` names the run."""
    folders = [path.parent] if path.is_file() else _folders(path)
    if not folders:
        yield ImportIssue(path, None, "", "has no output.jsonl or output-rs*.jsonl")
    for folder in folders:
        files = [path] if path.is_file() else sorted(folder.glob("output*"))
        yield from _read_folder(files, folder.resolve().name or run, run)


def _folders(path: Path) -> list[Path]:
    if any(path.glob("output*.jsonl*")):
        return [path]
    root = path / "eval-results" if (path / "eval-results").is_dir() else path
    return sorted({file.parent for file in root.glob("*/output*.jsonl*")})


def _read_folder(files: list[Path], benchmark: str, run: str) -> Iterator[ImportedItem]:
    outputs: list[tuple[int, int, Path]] = []  # seed and chunk, -1 for none
    for file in files:
        if match := NAME.fullmatch(file.name):
            outputs.append((int(match["seed"] or -1), int(match["chunk"] or -1), file))
        elif file.name.endswith(f".jsonl{ASYNC}"):
            whole = file.name.removesuffix(ASYNC)
            reason = f"is of a job that has not ended: import {whole} when it is there"
            yield ImportIssue(file, None, "", reason)
        elif len(files) == 1:
            yield ImportIssue(file, None, "", "is not an output.jsonl or output-rs{seed}.jsonl")
    readers: dict[int, _Reader] = {}
    for seed, chunk, file in sorted(outputs):
        if chunk >= 0 and any(other[:2] == (seed, -1) for other in outputs):
            yield ImportIssue(file, None, "", "is not taken: its seed's merged file is there")
            continue
        name = f"{run}/greedy" if seed < 0 else run
        reader = readers.setdefault(seed, _Reader(Cell(name, benchmark, "unknown"), max(seed, 0)))
        yield from take(records(file), reader.trials_of)


class _Reader:
    def __init__(self, cell: Cell, seed: int) -> None:
        self.cell, self.seed = cell, seed
        self.seen: Counter[str] = Counter()
        """Occurrences of each task id: a second occurrence is another task."""

    def trials_of(self, fields: Fields) -> list[ImportedItem]:
        task_id = _task_id(fields)
        self.seen[task_id] += 1
        if (times := self.seen[task_id]) > 1:
            task_id = f"{task_id}#{times}"
        trial = ImportedAttempt(self.cell, task_id, self.seed, file=fields.file, line=fields.line)
        _add_conversation(fields, trial)
        trial.tool_runs = tool_runs(trial.messages, trial.calls)
        _add_parallel_thinking(fields, trial)
        trial.outcome = _outcome(fields, trial)
        if trial.outcome["status"] != "infra_error":
            _score(fields, trial)
        return [trial]


def _task_id(fields: Fields) -> str:
    if id := next(filter(None, map(fields.identity, IDS)), None):
        return id
    for name in PROBLEMS:
        if name in fields:
            return content_hash(fields.data[name])[:16]
    fields.refuse("", f"has no {', '.join(IDS + PROBLEMS)} to tell its task by")


def _add_conversation(fields: Fields, trial: ImportedAttempt) -> None:
    """Add messages and calls. Without tools, a row has only problem and answer."""
    reasons = _each_step(fields, "finish_reason")
    status = "error" if "error" in fields else "ok"
    if "conversation" in fields:
        trial.messages = message_rows(fields, "conversation")
        replies = [row for row in trial.messages if row["role"] == "assistant"]
        replies = replies[-len(reasons) :] if reasons else replies  # those before are examples
        for place in range(len(reasons or replies)):
            reason = reasons[place] if reasons else None
            add_call(trial.calls, status=status, finish_reason=reason)
        link_calls(replies, trial.calls)
        return
    problem = next((name for name in PROBLEMS if name in fields), None)
    key = next((name for name in GENERATIONS if name in fields), GENERATIONS[0])
    answer = fields.needed(key, fields.text(key))
    reasoning: str | None = "\n".join(_each_step(fields, "reasoning_content"))
    if not reasoning and (full := fields.text(f"_full_{key}")) not in (None, answer):
        # The answer lost its blanks when it was split from the reasoning.
        reasoning = (full or "").rstrip().removesuffix(answer)
    figures = _figures(fields)
    call = add_call(
        trial.calls,
        status=status,
        finish_reason=reasons[0] if reasons else None,
        sent_at=figures.get("started_at"),
        admitted_at=figures.get("started_at"),
        ended_at=figures.get("ended_at"),
        latency_s=figures.get("working_s"),
        prompt_tokens=figures.get("prompt_tokens"),
        completion_tokens=figures.get("completion_tokens"),
        logprobs=fields.read("logprobs", LOGPROBS) or None,
    )
    reply: Row = {"role": "assistant", "content": answer, "call_id": call["call_id"]}
    trial.messages = message_rows(fields, problem) if problem else []
    trial.messages.append(reply | compact(reasoning=reasoning or None))


def _each_step(fields: Fields, name: str) -> list[str]:
    """Return the fields that, with tools, are lists with a value for every step."""
    value = fields.get(name)
    if not isinstance(value, list):
        text = fields.text(name)
        return [] if text is None else [text]
    if all(isinstance(step, str) for step in value):
        return value
    fields.wrong(name, "text or a list of texts")
    return []


def _figures(fields: Fields) -> Row:
    """The figures of a row: of its single call, or of all calls together."""
    return compact(
        started_at=fields.epoch("generation_start_time"),
        ended_at=fields.epoch("generation_end_time"),
        working_s=fields.amount("generation_time"),
        prompt_tokens=fields.count("num_input_tokens"),
        completion_tokens=fields.count("num_generated_tokens"),
    )


def _add_parallel_thinking(fields: Fields, trial: ImportedAttempt) -> None:
    mode = next((mode for mode in MODES if f"{mode}_comparison" in fields), None)
    solutions = fields.get("solution_list")
    if mode is None or not isinstance(solutions, list):
        return
    if not all(isinstance(text, str) for text in solutions):
        fields.wrong("solution_list", "a list of texts")
        return

    def run(name: str, arguments: dict[str, int], result: str, status: str = "ok") -> Row:
        row: Row = {"step": 1, "name": name, "arguments": json.dumps(arguments)}
        return row | {"result": result, "status": status}

    name, role = MODES[mode]
    runs = [run("solution", {"number": nth}, text) for nth, text in enumerate(solutions)]
    calls = [{key: call[key] for key in call.keys() - SUMS} for call in trial.calls]
    if solutions:
        answer = fields.text("generation")
        taken = {"taken": solutions.index(answer)} if answer in solutions else {}
        text, failed = fields.text(f"{mode}_comparison"), fields.flag(f"{mode}_successful") is False
        combining = run(name, taken, text or "", "error" if failed else "ok")
        runs.append(combining | ({"error_type": "no_verdict"} if failed else {}))
        call: Row = {"call_id": "call-combine", "step": 1, "role": role, "status": "ok"}
        tokens = fields.count(f"{mode}_num_generated_tokens")
        calls.append(call | compact(completion_tokens=tokens))
    trial.calls, trial.tool_runs = calls, runs


def _outcome(fields: Fields, trial: ImportedAttempt) -> Row:
    error = fields.text("error")
    last = trial.calls[-1].get("finish_reason") if trial.calls else None
    status = "limit" if error == CONTEXT_ERROR or last in CUT_SHORT else "ok"
    return (
        foreign_error(error)
        | _figures(fields)
        | compact(
            status="infra_error" if error and error != CONTEXT_ERROR else status,
            stop_reason=error or last,
            tool_calls=fields.count("num_tool_calls"),
            answer=fields.text_or_json("predicted_answer"),
        )
    )


def _score(fields: Fields, trial: ImportedAttempt) -> None:
    for name, scorer, value_of in METRICS:
        if name not in fields:
            continue
        value = value_of(fields, name)
        correct = value == 1.0 if value in (0.0, 1.0) else None
        answer = trial.outcome.get("answer")
        row = compact(scorer=scorer, value=value, answer=answer, correct=correct)
        if not trial.scores:
            trial.outcome |= compact(score=value, correct=correct)
            row |= compact(detail=detail_text(**{key: fields.get(key) for key in DETAILS}))
        trial.scores.append(row)


def _mark(fields: Fields, name: str) -> float | None:
    """Return a mark as a number: true and false are 1 and 0, other numbers are unchanged."""
    value = fields.data[name]
    return float(value) if isinstance(value, bool) else fields.number(name)


def _judged(fields: Fields, name: str) -> float | None:
    """A judge's verdict as a number: yes or no, correct or incorrect, or SimpleQA's letters."""
    text = fields.text(name)
    if text is None:
        return None
    if JUDGEMENT in text:  # as they do: a last one that does not begin with "yes" is wrong
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


def _first(fields: Fields, name: str) -> float | None:
    values = fields.array(name)
    if values and not isinstance(values[0], bool):
        fields.problem(f"{name}.0", f"{values[0]!r} is not true or false")
        return None
    return float(values[0]) if values else None


def _equals(fields: Fields, name: str, wanted: str) -> float | None:
    text = fields.text(name)
    return None if text is None else float(text == wanted)


def _within(fields: Fields, name: str, inner: str) -> float | None:
    flag = fields.inner(name).flag(inner)
    return None if flag is None else float(flag)


FOLLOWED = partial(_within, inner="follow_all_instructions")
METRICS: tuple[tuple[str, str, Callable[[Fields, str], float | None]], ...] = (
    ("expected_judgement", "correct_judgement", _agrees),
    ("judgement", "judge_correct", _judged),
    ("judgement-gen-base", "judgement-gen-base", lambda fields, name: None),
    ("judgement-base-gen", "judgement-base-gen", lambda fields, name: None),
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
