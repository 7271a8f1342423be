"""Import a run of ThunderAgent's or ToolOrchestra's HLE example: its logs and its results.

In: an output or log folder of one run, or one file of it. Read are `orchestrator_usage.jsonl`,
`*_timeseries.csv`, the eval log's `[HLE_TRIAL_COMPLETE]` and `type=step_complete` lines, and the
tasks' `{id}.json`. Of an output folder `…/outputs/NAME` the logs are looked for in `…/logs/NAME`
too, and the other way round. Out: one `ImportedRecords` per record (so that a log that has grown
adds only its new lines), `ImportedAttempt` objects, and an `ImportIssue` for each failure.

| theirs | ours |
|---|---|
| a usage line | a row of `calls`, role orchestrator; `step` is its place, for it names no program |
| ts_unix of a usage line | `ended_at`: it is the time of the response |
| hits_total, kv_cache_usage_perc, X_sum | `server_metrics` vllm:prefix_cache_hits_total, … |
| delta_hits, delta_X_sum | the same names with `:delta` |
| sm_util, mem_used_mib of GPU 0 | gpu_utilization, gpu_memory_used_mib of engine gpu0 |
| a trial's or a step's line | `gateway_events`: release / trial_complete, finish / step_complete |

When a request was sent is nowhere in these files. It stays null and so do the latencies; hence
`window_summary`, whose second 0 is the first request sent, has no figures for such a cell, and
`reference_window`, whose second 0 is the first response, has theirs. The changes (`:delta`) are
kept because they do not follow from the totals: after a sample without numbers the sampler notes
none or the whole counter, depending on the machine's awk.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from tutti.tasks.exchange.imported import (
    Cell,
    ImportedAttempt,
    ImportedItem,
    ImportedRecords,
    ImportIssue,
    Row,
    json_text,
    shown,
)
from tutti.tasks.exchange.thunderagent.series import LogLine, read_series

RESULT_FIELDS = {"id", "all_tool_responses", "all_message_responses", "correct", "status"}
REQUEST_FIELDS = {"vllm_model_configs", "cur_output_dir", "context_str", "problem", "answer", "eid"}
"""Fields of the request that a tool's response repeats; the rest is the tool's result."""
SCORER = "thunderagent-hle"


@dataclass(frozen=True)
class TrialEnd:
    """A log line that marks a completed trial."""

    file: Path
    line: int
    at: datetime
    said: dict[str, str]
    """Its `key=value` pairs: task_id, job_id, status, correct."""


def read_results(
    files: Sequence[Path], cell: Cell, marks: Sequence[TrialEnd]
) -> Iterator[ImportedAttempt | ImportIssue]:
    """One trial per result, ended at its mark; without results, one per mark."""
    ends = {mark.said.get("task_id"): mark.at for mark in marks}
    found = False
    for file in files:
        try:
            result = json.loads(file.read_bytes())
        except (ValueError, RecursionError) as error:
            yield ImportIssue(file, None, "", f"no JSON: {error}")
            continue
        if isinstance(result, dict) and result.keys() >= RESULT_FIELDS:
            found = True
            yield from _of_result(file, result, cell, ends.get(str(result["id"])))
    if not found:
        yield from _of_marks(cell, marks)


def _of_marks(cell: Cell, marks: Sequence[TrialEnd]) -> Iterator[ImportedAttempt]:
    seen: Counter[str] = Counter()
    for mark in marks:
        task_id = mark.said.get("task_id")
        if task_id is None:
            continue  # it counts as a trial, but of no task
        outcome = _outcome(mark.said.get("status"), mark.said.get("correct") == "True", True)
        place: dict[str, Any] = {"file": mark.file, "line": mark.line}
        ended = {"ended_at": mark.at}
        yield ImportedAttempt(cell, task_id, seen[task_id], outcome=outcome | ended, **place)
        seen[task_id] += 1


def _outcome(status: Any, correct: bool, answered: bool) -> Row:
    """The attempt's outcome. A tool failure ends the trial ("error") and is not a wrong answer."""
    if status == "error":
        return {"status": "infra_error", "stop_reason": "tool_error"}
    row: Row = {"status": "ok" if answered else "limit", "correct": correct}
    return row | {"stop_reason": "answer" if answered else "turns", "score": float(correct)}


def _of_result(
    file: Path, result: Row, cell: Cell, ended_at: datetime | None
) -> Iterator[ImportedAttempt | ImportIssue]:
    responses, problem = _turns(result, "all_tool_responses")
    said, other = _turns(result, "all_message_responses")
    for place, reason in (problem, other):
        if reason:
            yield ImportIssue(file, None, place, reason)
    trial = ImportedAttempt(cell, str(result["id"]), file=file)
    trial.messages.append({"role": "user", "content": str(result.get("problem", ""))})
    answer = None
    for turn in sorted(said.keys() | responses.keys()):
        message = said.get(turn)
        given = responses.get(turn)
        replies = [r for r in given if isinstance(r, dict)] if isinstance(given, list) else []
        _add_turn(trial, turn, message if isinstance(message, dict) else {}, replies)
        answer = next((r.get("pred") for r in replies if r.get("tool") == "answer"), answer)
    trial.outcome = _outcome(result["status"], result["correct"] is True, answer is not None)
    trial.outcome |= {"ended_at": ended_at, "steps": len(responses)}
    trial.outcome |= {"answer": None if answer is None else str(answer).strip()}
    if result.get("error_type"):
        trial.outcome["error_type"] = str(result["error_type"])
    if "score" in trial.outcome:
        score = {"scorer": SCORER, "value": trial.outcome["score"], "scored_at": ended_at}
        score |= {"correct": trial.outcome["correct"], "answer": trial.outcome["answer"]}
        trial.scores.append(score | {"detail": json_text({"expected": result.get("answer")})})
    yield trial


def _turns(result: Row, field: str) -> tuple[dict[int, Any], tuple[str, str]]:
    """The turns by number (`turn_3_response`), and the issues."""
    value = result[field]
    if not isinstance(value, dict):
        return {}, (field, f"{shown(value)} is no object")
    numbered = {name: re.fullmatch(r"turn_(\d+)_\w+", name) for name in value}
    turns = {int(match[1]): value[name] for name, match in numbered.items() if match}
    odd = [name for name, match in numbered.items() if not match]
    return turns, (field, f"{shown(odd)} are no turns" if odd else "")


def _add_turn(trial: ImportedAttempt, turn: int, message: Row, replies: list[Row]) -> None:
    given = message.get("tool_calls")
    asked = [c for c in given if isinstance(c, dict)] if isinstance(given, list) else []
    calls = [
        {
            "id": f"turn_{turn}_{place}",
            "name": str(call.get("tool_name")),
            "arguments": json_text(call.get("tool_arguments")),
        }
        for place, call in enumerate(asked)
    ]
    content = message.get("content")
    said = {"role": "assistant", "content": None if content is None else str(content)}
    trial.messages.append(said | {"tool_calls": calls})
    for reply in replies:
        name = str(reply.get("tool"))
        # Of several calls only the first valid one is executed; a reply names only its tool.
        call = next((c for c in calls if c["name"] == name), None)
        kept = {key: value for key, value in reply.items() if key not in REQUEST_FIELDS}
        text = json_text(kept)
        failed = bool(reply.get("tool_error"))
        run = {"step": turn + 1, "name": name, "arguments": call and call["arguments"]}
        run |= {"result": text, "status": "infra_error" if failed else "ok"}
        run |= {"error_type": str(reply.get("tool_error_type") or "tool_error") if failed else None}
        trial.tool_runs.append(run)
        link = {"tool_call_id": call and call["id"], "name": name}
        trial.messages.append({"role": "tool", "content": text} | link)


USAGE = "orchestrator_usage.jsonl"
SERIES = "*_timeseries.csv"
EVAL_LOGS = ("eval.log", "eval_driver.log")
TRIAL_LOGS = (*EVAL_LOGS, "hle_profile.log", "eval_global.log", "hle_global.log", "tau2_global.log")
STEP_LOGS = (*EVAL_LOGS, "tau2_global.log", "eval_global.log")
"""In the order in which their summaries search: the first with a matching line is used."""
NAMED = re.compile(
    r"(?P<method>baseline|continuum|thunderagent|trnew|tr)_c(?P<c>\d+)(_rep(?P<rep>\d+))?"
)
POLICIES = {"baseline": "passthrough", "continuum": "continuum"}  # the others are thunderagent
TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens")
MAX_TOKENS = 2**53  # a larger float in JSON is not an exact count
QUARTER_S = 15 * 60  # time zones differ by quarters of an hour
TRIAL_MARK, STEP_MARK = "HLE_TRIAL_COMPLETE", "type=step_complete"
TRIAL = {"event": "release", "reason_code": "trial_complete", "reason": "trial_complete"}
STEP = {"event": "finish", "reason_code": "step_complete", "reason": "step_complete"}
UNIX = re.compile(r"\bts_unix=(\d+(?:\.\d+)?)\b")
TRIAL_STAMPS = (
    re.compile(r"\bts_iso=(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})"),
    re.compile(r"(\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2})"),
)
STEP_STAMP = re.compile(r"\[PROFILE\]\s+(\d{4}-\d{2}-\d{2}\s+\d{2}:\d{2}:\d{2})")


@dataclass
class SourceRun:
    """The files of one run, and what they say about it."""

    path: Path
    run: str
    marks: list[TrialEnd] = field(default_factory=list)
    """The trials' lines read so far."""

    @cached_property
    def folders(self) -> list[Path]:
        """The given folder (or the given file's) and the matching folder of logs or outputs."""
        here = self.path if self.path.is_dir() else self.path.parent
        place = here.resolve()
        other = {"outputs": "logs", "logs": "outputs"}.get(place.parent.name)
        twin = place.parent.parent / (other or "") / place.name
        return [here, twin] if other and twin.is_dir() else [here]

    @cached_property
    def name(self) -> str:
        """The folder's name."""
        return self.folders[0].resolve().name

    def files(self, pattern: str) -> list[Path]:
        """The files to be read; only the given file if one was given."""
        found = self.beside(pattern)
        return found if self.path.is_dir() else [file for file in found if file == self.path]

    def beside(self, pattern: str) -> list[Path]:
        """All files of the run."""
        return [path for folder in self.folders for path in sorted(folder.glob(pattern))]

    @cached_property
    def first_usage(self) -> dict[str, Any]:
        """The first usage line that is a record."""
        for file in self.beside(USAGE):
            for line in lines(file):
                record = _record(line.text)
                if isinstance(record, dict):
                    return record
        return {}

    @cached_property
    def cell(self) -> Cell:
        """The run's settings: from the folder's name, else from the log's line `type=run_start`."""
        started = self._run_start()
        model = str(self.first_usage.get("model") or started.get("model_name") or "unknown")
        named = NAMED.search(self.name)
        method, count, repeat = named.group("method", "c", "rep") if named else ("baseline", "", "")
        said = count or started.get("concurrency")
        detail = {"folder": self.name, "model_path": model, "utc_offset_s": self.utc_offset_s}
        return Cell(
            run=self.run,
            benchmark="tau2" if self.name.startswith("tau2") else "hle",
            model=model.rstrip("/").rsplit("/", 1)[-1] or model,
            policy=POLICIES.get(method, "thunderagent") if named else None,
            concurrency=int(said) if said else None,
            repeat=int(repeat or 0),
            detail=detail,
        )

    def _run_start(self) -> dict[str, str]:
        logs = [file for name in EVAL_LOGS for file in self.beside(name)]
        for file in logs:
            for line in lines(file):
                if "type=run_start" in line.text:
                    return _pairs(line.text)
        return {}

    @cached_property
    def utc_offset_s(self) -> int | None:
        """UTC offset of the clock of logs without a zone; None if unknown."""
        unix, iso = self.first_usage.get("ts_unix"), self.first_usage.get("ts_iso")
        try:
            local = datetime.fromisoformat(str(iso)).replace(tzinfo=UTC).timestamp()
            return round((local - float(str(unix))) / QUARTER_S) * QUARTER_S
        except (ValueError, OverflowError):
            return None

    def from_local(self, text: str) -> datetime:
        """A local time without a zone, in UTC; this machine's zone if the run's is unknown."""
        local = datetime.fromisoformat(text)
        if self.utc_offset_s is None:
            return local.astimezone(UTC)
        return local.replace(tzinfo=UTC) - timedelta(seconds=self.utc_offset_s)


def read(path: Path, run: str) -> Iterator[ImportedItem]:
    """Read everything in the folder or file at `path`; `run` is the run's permanent name."""
    source = SourceRun(path, run)
    known = any(source.files(name) for name in (USAGE, SERIES, *TRIAL_LOGS))
    for item in _read(source):
        known = True
        yield item
    if not known:
        wanted = f"no {USAGE}, {SERIES}, eval log or task's result in it"
        yield ImportIssue(path, None, "", wanted if path.exists() else "there is no such file")


def _read(source: SourceRun) -> Iterator[ImportedItem]:
    for file in source.files(USAGE):
        yield from _read_usage(file, source)
    for file in source.files(SERIES):
        yield from read_series(file, source.cell, lines(file))
    yield from _read_marks(source, TRIAL_MARK, TRIAL_LOGS)
    yield from _read_marks(source, STEP_MARK, STEP_LOGS)
    yield from read_results(source.files("*.json"), source.cell, source.marks)


def lines(file: Path) -> Iterator[LogLine]:
    """A file's lines with their numbers; bytes that are no UTF-8 become U+FFFD."""
    with file.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            yield LogLine(number, line.decode("utf-8", "replace").strip(), line.endswith(b"\n"))


def _record(text: str) -> Any:
    """The JSON value; None where there is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def moment(unix: Any) -> datetime:
    """A Unix time in UTC, to the microsecond. Raises ValueError if it is invalid."""
    try:
        return datetime.fromtimestamp(float(unix), UTC)
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise ValueError(f"{shown(unix)} is not a Unix time") from error


def _read_usage(file: Path, source: SourceRun) -> Iterator[ImportedItem]:
    place = 0
    for line in lines(file):
        if not line.text:
            continue
        record = _record(line.text)
        if not line.ended and not isinstance(record, dict):
            yield line.unended(file)
            return
        place += 1
        if not isinstance(record, dict):
            yield ImportIssue(file, line.number, "", f"{shown(line.text)} is not a JSON object")
            continue
        try:
            row = _call(record, source, place) | {"ended_at": moment(record.get("ts_unix"))}
        except ValueError as error:
            yield ImportIssue(file, line.number, "ts_unix", str(error))
            continue
        for name in TOKENS:
            try:
                row[name] = _count(record.get(name))
            except ValueError as error:
                yield ImportIssue(file, line.number, name, str(error))
        yield ImportedRecords(source.cell, USAGE, place - 1, {"calls": [row]}, 1)


def _call(record: dict[str, Any], source: SourceRun, place: int) -> dict[str, Any]:
    kept = ("req_id", "model", "cached_tokens_inferred")
    return {
        "call_id": f"{source.run}/{source.name}/usage-{place}",
        "step": place,
        "role": "orchestrator",
        "status": "ok",  # only successful calls are logged
        "model": source.cell.model,
        "endpoint": None if record.get("base_url") is None else str(record["base_url"]),
        "params": json_text({name: record[name] for name in kept if name in record}),
    }


def _count(value: Any) -> int | None:
    if value is None:
        return None
    try:
        number = float(value)
        if number.is_integer() and abs(number) <= MAX_TOKENS:
            return int(number)
    except (TypeError, ValueError):
        pass  # reported below
    raise ValueError(f"{shown(value)} is not a token count")


def _read_marks(source: SourceRun, mark: str, names: tuple[str, ...]) -> Iterator[ImportedItem]:
    """Records of the first log with `mark` lines; the other logs repeat them."""
    is_trial = mark == TRIAL_MARK
    place = 0
    for file in (file for name in names for file in source.files(name)):
        for line in lines(file):
            if mark not in line.text:
                continue
            if not line.ended:
                yield line.unended(file)
                break
            try:
                at = _time_in(source, line.text, TRIAL_STAMPS if is_trial else (STEP_STAMP,))
            except ValueError as error:
                yield ImportIssue(file, line.number, "ts_unix", str(error))
                continue
            said = _pairs(line.text)
            if is_trial:
                source.marks.append(TrialEnd(file, line.number, at, said))
            row = {"at": at, "program_id": said.get("job_id")} | (TRIAL if is_trial else STEP)
            stream = "trials" if is_trial else "steps"
            yield ImportedRecords(source.cell, stream, place, {"gateway_events": [row]}, 1)
            place += 1
        if place:
            return


def _pairs(text: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S+)", text))


def _time_in(source: SourceRun, text: str, stamps: tuple[re.Pattern[str], ...]) -> datetime:
    """The Unix time in a line, else the first of the local times."""
    if found := UNIX.search(text):
        return moment(found[1])
    for stamp in stamps:
        if found := stamp.search(text):
            return source.from_local(" ".join(found[1].split()))
    raise ValueError(f"{shown(text)} is not a time")
