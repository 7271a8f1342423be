"""Import of a run of ThunderAgent's or ToolOrchestra's HLE example: its logs and its results.

In: an output or log folder of one run, or one file of it. The files are `orchestrator_usage.jsonl`,
`*_timeseries.csv`, the eval log's `[HLE_TRIAL_COMPLETE]` and `type=step_complete` lines, and the
tasks' `{id}.json`; for a folder `…/outputs/NAME` also the logs in `…/logs/NAME`, and vice versa.
Out: one `ImportedRecords` per record (a log that has grown adds only its new lines),
`ImportedAttempt` objects, and an `ImportIssue` for each failure.

| theirs | ours |
|---|---|
| a usage line | a row of `calls`, role orchestrator; `step` is its index, as it names no program |
| ts_unix of a usage line | `ended_at`: it is the time of the response |
| hits_total, kv_cache_usage_perc, X_sum | `server_metrics` vllm:prefix_cache_hits_total, … |
| delta_hits, delta_X_sum | the same names with `:delta`; they do not follow from the totals |
| sm_util, mem_used_mib of GPU 0 | gpu_utilization, gpu_memory_used_mib of engine gpu0 |
| a trial's or a step's line | `gateway_events`: release / trial_complete, finish / step_complete |

No file has the time at which a request was sent: latencies stay null, and `window_summary`, whose
second 0 is the first request sent, has no figures for such a cell. `reference_window` has them.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from tutti.tasks.exchange.base.fields import Fields, compact, detail_text, document, records, take
from tutti.tasks.exchange.base.imported import (
    TOKENS,
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
QUARTER_S = 15 * 60  # time zones differ by quarters of an hour
TRIAL_MARK, STEP_MARK = "HLE_TRIAL_COMPLETE", "type=step_complete"
TRIAL = {"event": "release", "reason_code": "trial_complete", "reason": "trial_complete"}
STEP = {"event": "finish", "reason_code": "step_complete", "reason": "step_complete"}
UNIX = re.compile(r"\bts_unix=(\d+(?:\.\d+)?)\b")
TRIAL_STAMPS = (
    re.compile(r"\bts_iso=(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})"),
    re.compile(r"(\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2})"),
)
STEP_STAMPS = (re.compile(r"\[PROFILE\]\s+(\d{4}-\d{2}-\d{2}\s+\d{2}:\d{2}:\d{2})"),)


@dataclass(frozen=True)
class TrialEnd:
    """A log line that marks a completed trial."""

    file: Path
    line: int
    at: datetime
    pairs: dict[str, str]
    """Its `key=value` pairs: task_id, job_id, status, correct."""


@dataclass
class SourceRun:
    """The files of one run, and its settings."""

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

    def files(self, *patterns: str) -> list[Path]:
        """The files to be read; only the given file if one was given."""
        found = self.beside(*patterns)
        return found if self.path.is_dir() else [file for file in found if file == self.path]

    def beside(self, *patterns: str) -> list[Path]:
        """All files of the run, in the order of the patterns."""
        places = ((pattern, folder) for pattern in patterns for folder in self.folders)
        return [path for pattern, folder in places for path in sorted(folder.glob(pattern))]

    @cached_property
    def first_usage(self) -> dict[str, Any]:
        found = (record for file in self.beside(USAGE) for record in records(file))
        return next((each.data for each in found if isinstance(each, Fields)), {})

    @cached_property
    def cell(self) -> Cell:
        """The run's settings: from the folder's name, else from the log's line `type=run_start`."""
        logs = (line for file in self.beside(*EVAL_LOGS) for line in lines(file))
        start = next((_pairs(line.text) for line in logs if "type=run_start" in line.text), {})
        model = str(self.first_usage.get("model") or start.get("model_name") or "unknown")
        name = self.folders[0].resolve().name
        named = NAMED.search(name)
        method, count, repeat = named.group("method", "c", "rep") if named else ("baseline", "", "")
        concurrency = count or start.get("concurrency")
        return Cell(
            run=self.run,
            benchmark="tau2" if name.startswith("tau2") else "hle",
            model=model.rstrip("/").rsplit("/", 1)[-1] or model,
            policy=POLICIES.get(method, "thunderagent") if named else None,
            concurrency=int(concurrency) if concurrency else None,
            repeat=int(repeat or 0),
            detail={"folder": name, "model_path": model, "utc_offset_s": self.utc_offset_s},
        )

    @cached_property
    def utc_offset_s(self) -> int | None:
        """UTC offset of the clock of logs without a zone; None if unknown."""
        unix, iso = self.first_usage.get("ts_unix"), self.first_usage.get("ts_iso")
        try:
            local = datetime.fromisoformat(str(iso)).replace(tzinfo=UTC).timestamp()
            return round((local - float(str(unix))) / QUARTER_S) * QUARTER_S
        except (ValueError, OverflowError):
            return None

    def time_in(self, text: str, stamps: Sequence[re.Pattern[str]]) -> datetime:
        """Return the Unix time in a line, else the first local time, in this machine's zone if the
        run's is unknown. Raises ValueError."""
        if unix := UNIX.search(text):
            return datetime.fromtimestamp(float(unix[1]), UTC)
        found = next(filter(None, (stamp.search(text) for stamp in stamps)), None)
        if found is None:
            raise ValueError(text)
        local = datetime.fromisoformat(" ".join(found[1].split()))
        if self.utc_offset_s is None:
            return local.astimezone(UTC)
        return local.replace(tzinfo=UTC) - timedelta(seconds=self.utc_offset_s)


def read(path: Path, run: str) -> Iterator[ImportedItem]:
    """Read everything in the folder or file at `path`; `run` is the run's permanent name."""
    source = SourceRun(path, run)
    for file in source.files(USAGE):
        yield from _read_usage(file, source)
    for file in source.files(SERIES):
        yield from read_series(file, source.cell, lines(file))
    yield from _read_marks(source, "trials", TRIAL_MARK, TRIAL_LOGS)
    yield from _read_marks(source, "steps", STEP_MARK, STEP_LOGS)
    results = [document(file) for file in source.files("*.json")]
    results = [r for r in results if isinstance(r, ImportIssue) or r.data.keys() >= RESULT_FIELDS]
    yield from take(results, lambda fields: [_attempt(fields, source)])
    if not any(isinstance(result, Fields) for result in results):
        yield from _attempts_of_marks(source)
    if not results and not source.files(USAGE, SERIES, *TRIAL_LOGS):
        yield ImportIssue(path, None, "", f"no {USAGE}, {SERIES}, eval log or task's result in it")


def lines(file: Path) -> Iterator[LogLine]:
    """Yield a file's lines with their numbers; bytes that are not UTF-8 become U+FFFD."""
    with file.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            yield LogLine(number, line.decode("utf-8", "replace").strip(), line.endswith(b"\n"))


def _read_usage(file: Path, source: SourceRun) -> Iterator[ImportedItem]:
    for place, record in enumerate(records(file)):
        if isinstance(record, ImportIssue):
            yield record
            continue
        ended = record.epoch("ts_unix")
        row = compact(
            call_id=f"{source.run}/{source.folders[0].resolve().name}/usage-{place + 1}",
            step=place + 1,
            role="orchestrator",
            status="ok",  # only successful calls are logged
            model=source.cell.model,
            endpoint=record.text("base_url"),
            params=json_text(record.picked(("req_id", "model", "cached_tokens_inferred"))),
            ended_at=ended,
            **{name: record.count(name) for name in TOKENS},
        )
        if ended is None:
            record.problem("ts_unix", "is needed")
        else:
            yield ImportedRecords(source.cell, USAGE, place, {"calls": [row]}, 1)
        yield from record.problems


def _read_marks(
    source: SourceRun, stream: str, mark: str, names: tuple[str, ...]
) -> Iterator[ImportedItem]:
    """Records of the first log with `mark` lines; the other logs repeat them."""
    is_trial = mark == TRIAL_MARK
    place = 0
    for file in source.files(*names):
        for line in lines(file):
            if mark not in line.text:
                continue
            if not line.ended:
                yield line.unended(file)
                break
            try:
                at = source.time_in(line.text, TRIAL_STAMPS if is_trial else STEP_STAMPS)
            except (ValueError, OverflowError, OSError):
                reason = f"{shown(line.text)} is not a time"
                yield ImportIssue(file, line.number, "ts_unix", reason)
                continue
            pairs = _pairs(line.text)
            if is_trial:
                source.marks.append(TrialEnd(file, line.number, at, pairs))
            row = {"at": at, "program_id": pairs.get("job_id")} | (TRIAL if is_trial else STEP)
            yield ImportedRecords(source.cell, stream, place, {"gateway_events": [row]}, 1)
            place += 1
        if place:
            return


def _pairs(text: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S+)", text))


def _attempts_of_marks(source: SourceRun) -> Iterator[ImportedAttempt]:
    seen: Counter[str] = Counter()
    for mark in source.marks:
        if (task_id := mark.pairs.get("task_id")) is None:
            continue  # it counts as a trial, but of no task
        outcome = _outcome(mark.pairs.get("status"), mark.pairs.get("correct") == "True", True)
        outcome["ended_at"] = mark.at
        trial = ImportedAttempt(source.cell, task_id, seen[task_id], outcome=outcome)
        trial.file, trial.line = mark.file, mark.line
        yield trial
        seen[task_id] += 1


def _outcome(status: Any, correct: bool, answered: bool) -> Row:
    """The attempt's outcome. A tool failure ends the trial ("error") and is not a wrong answer."""
    if status == "error":
        return {"status": "infra_error", "stop_reason": "tool_error"}
    row: Row = {"status": "ok" if answered else "limit", "correct": correct}
    return row | {"stop_reason": "answer" if answered else "turns", "score": float(correct)}


def _attempt(result: Fields, source: SourceRun) -> ImportedAttempt:
    """The attempt of a task's result, ended at its mark. Raises RecordRefused."""
    task_id = result.needed("id", result.identity("id"))
    trial = ImportedAttempt(source.cell, task_id, file=result.file)
    trial.messages.append({"role": "user", "content": result.text("problem") or ""})
    responses = _turns(result, "all_tool_responses")
    messages = _turns(result, "all_message_responses")
    answer = None
    for turn in sorted(messages.keys() | responses.keys()):
        message, replies = messages.get(turn), _dicts(responses.get(turn))
        _add_turn(trial, turn, message if isinstance(message, dict) else {}, replies)
        answer = next((r.get("pred") for r in replies if r.get("tool") == "answer"), answer)
    ended_at = {mark.pairs.get("task_id"): mark.at for mark in source.marks}.get(task_id)
    text = None if answer is None else str(answer).strip()
    outcome = _outcome(result.get("status"), result.get("correct") is True, answer is not None)
    trial.outcome = outcome | compact(
        ended_at=ended_at,
        steps=len(responses),
        answer=text,
        error_type=result.text("error_type") or None,
    )
    if "score" in outcome:
        detail = detail_text(expected=result.get("answer"))
        score = {"answer": text, "detail": detail, "scored_at": ended_at}
        trial.score(SCORER, outcome["score"], outcome["correct"], **score)
    return trial


def _turns(result: Fields, name: str) -> dict[int, Any]:
    """The turns by number (`turn_3_response`)."""
    turns = {}
    for key, value in result.inner(name).data.items():
        if match := re.fullmatch(r"turn_(\d+)_\w+", key):
            turns[int(match[1])] = value
        else:
            result.problem(name, f"{shown(key)} is no turn")
    return turns


def _dicts(value: Any) -> list[Row]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _add_turn(trial: ImportedAttempt, turn: int, message: Row, replies: list[Row]) -> None:
    calls = [
        {
            "id": f"turn_{turn}_{place}",
            "name": str(call.get("tool_name")),
            "arguments": json_text(call.get("tool_arguments")),
        }
        for place, call in enumerate(_dicts(message.get("tool_calls")))
    ]
    content = message.get("content")
    reply_row = {"role": "assistant", "content": None if content is None else str(content)}
    trial.messages.append(reply_row | {"tool_calls": calls})
    for reply in replies:
        name = str(reply.get("tool"))
        # Of several calls only the first valid one is executed; a reply names only its tool.
        call = next((c for c in calls if c["name"] == name), {})
        text = json_text({key: v for key, v in reply.items() if key not in REQUEST_FIELDS})
        failed = bool(reply.get("tool_error"))
        kind = str(reply.get("tool_error_type") or "tool_error") if failed else None
        run = {"step": turn + 1, "name": name, "arguments": call.get("arguments")}
        run |= {"result": text, "status": "infra_error" if failed else "ok", "error_type": kind}
        trial.tool_runs.append(run)
        link = {"tool_call_id": call.get("id"), "name": name}
        trial.messages.append({"role": "tool", "content": text} | link)
