"""Tests of the importer of ThunderAgent's runs: the rows from each file, and issues for invalid
files."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tutti import storage
from tutti.tasks.exchange.base.imported import ImportedAttempt, ImportedRecords, ImportIssue
from tutti.tasks.exchange.loader import load
from tutti.tasks.exchange.thunderagent.read import read

NAME = "hle_paper_thunderagent_c48_rep3_20260101_000000"
USAGE = {
    "ts_unix": 1767225600.25,
    "ts_iso": "2026-01-01T08:00:00",  # eight hours ahead of UTC
    "req_id": "r1",
    "base_url": "http://127.0.0.1:8000/v1",
    "model": "/ckpt/Orchestrator-8B",
    "prompt_tokens": 100,
    "completion_tokens": 7,
    "total_tokens": 107,
    "cached_tokens": 64,
}
SERIES = "ts_iso,ts_unix,hits_total,delta_hits,kv_cache_usage_perc,request_decode_time_seconds_sum"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an output folder with ThunderAgent's naming."""
    folder = tmp_path / NAME
    folder.mkdir()
    return folder


def taken(path: Path) -> tuple[list[ImportedRecords], list[ImportedAttempt], list[str]]:
    """Return the importer's output by kind; issues are given without the folder's path."""
    items = list(read(path, "run"))
    problems = [item for item in items if isinstance(item, ImportIssue)]
    words = [str(problem).replace(str(problem.file), problem.file.name) for problem in problems]
    recordings = [item for item in items if isinstance(item, ImportedRecords)]
    return recordings, [item for item in items if isinstance(item, ImportedAttempt)], words


def rows(recordings: list[ImportedRecords], table: str) -> list[dict[str, Any]]:
    return [row for recording in recordings for row in recording.rows.get(table, [])]


def write(path: Path, *lines: str | dict[str, Any]) -> None:
    """Write lines of text unchanged and objects as JSON."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(f"{text}\n" for text in texts))


def test_the_folder_names_the_cell(folder: Path) -> None:
    """Policy, concurrency and repeat come from the name, the model from the usage log."""
    write(folder / "orchestrator_usage.jsonl", USAGE)
    ((recording,), _, _) = taken(folder)
    cell = recording.cell
    point = (cell.benchmark, cell.model, cell.policy, cell.concurrency, cell.repeat)
    assert point == ("hle", "Orchestrator-8B", "thunderagent", 48, 3)
    assert cell.detail["utc_offset_s"] == 8 * 3600


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hle_paper_baseline_c24_rep1_x", ("hle", "passthrough", 24, 1)),
        ("hle_paper_continuum_c32_rep2_x", ("hle", "continuum", 32, 2)),
        ("tau2_trnew_c128", ("tau2", "thunderagent", 128, 0)),
        ("hle_local_20260101_000000", ("hle", None, 16, 0)),
    ],
)
def test_names_of_other_runs(tmp_path: Path, name: str, expected: tuple[Any, ...]) -> None:
    """Values missing in the name come from the start of the log."""
    (tmp_path / name).mkdir()
    start = "[PROFILE] 2026-01-01 08:00:00.000 type=run_start model_name=/ckpt/m concurrency=16"
    step = "[PROFILE] type=step_complete ts_unix=1767225600.25"
    write(tmp_path / name / "eval.log", start, step)
    ((recording,), _, _) = taken(tmp_path / name)
    cell = recording.cell
    assert (cell.benchmark, cell.policy, cell.concurrency, cell.repeat) == expected
    assert cell.model == "m"


def test_a_usage_line_is_a_call_that_ended(folder: Path) -> None:
    """The call's time is that of the response; the time of the request and the duration are
    unknown."""
    write(folder / "orchestrator_usage.jsonl", USAGE, USAGE | {"cached_tokens": None})
    recordings, _, problems = taken(folder)
    first, second = rows(recordings, "calls")
    assert first["ended_at"] == datetime(2026, 1, 1, 0, 0, 0, 250_000, tzinfo=UTC)
    assert not {"sent_at", "latency_s", "ttft_s"} & first.keys()
    tokens = [first[f"{kind}_tokens"] for kind in ("prompt", "cached", "completion")]
    assert tokens == [100, 64, 7]
    assert (first["step"], second["step"], second.get("cached_tokens")) == (1, 2, None)
    assert first["call_id"] != second["call_id"]
    assert json.loads(first["params"])["req_id"] == "r1"
    assert problems == []


def test_samples_have_vllms_names(folder: Path) -> None:
    """A change that could not be determined is null; any other cell without a number is omitted."""
    line = "2026-01-01T00:00:00+00:00,1767225600,500,nan,0.25,nan"
    write(folder / "prefix_cache_timeseries.csv", SERIES, line, line)
    gpu = "ts_iso,ts_unix,gpu_index,sm_util,mem_util,mem_used_mib,mem_total_mib"
    write(folder / "gpu_sm_util_timeseries.csv", gpu, "x,1767225600.125,1,97,50,30000,32607")
    long = "ts_iso,ts_unix,port,metric,value"
    sample = "x,1767225600,8100,vllm:kv_cache_usage_perc{model_name=m},0.5"
    write(folder / "kv_cache_timeseries.csv", long, sample)
    recordings, _, problems = taken(folder)
    found = rows(recordings, "server_metrics")
    assert problems == []
    values = [(row["engine_id"], row["name"], row["value"]) for row in found]
    assert values == [
        ("gpu1", "gpu_utilization", 97),
        ("gpu1", "gpu_memory_utilization", 50),
        ("gpu1", "gpu_memory_used_mib", 30000),
        ("gpu1", "gpu_memory_total_mib", 32607),
        ("vllm:8100", "vllm:kv_cache_usage_perc", 0.5),
        *[
            ("vllm", "vllm:prefix_cache_hits_total", 500),
            ("vllm", "vllm:prefix_cache_hits_total:delta", None),
            ("vllm", "vllm:kv_cache_usage_perc", 0.25),
        ]
        * 2,
    ]
    # One stamp twice: told apart by a microsecond.
    assert [row["at"].microsecond for row in found] == [125_000] * 4 + [0] * 4 + [1] * 3


def test_bad_lines_are_named_and_the_rest_is_taken(folder: Path) -> None:
    """An issue names file, line, field and value; a record with one bad field keeps the others."""
    write(
        folder / "orchestrator_usage.jsonl",
        USAGE,
        "not JSON",
        "[1]",
        USAGE | {"ts_unix": "soon"},
        USAGE | {"prompt_tokens": "many", "cached_tokens": 1.5},
        "",
        USAGE,
    )
    write(
        folder / "prefix_cache_timeseries.csv",
        SERIES,
        "x,1767225600,1,1,oops,inf",
        "x,never,1,1,0.5,1",
        "x,1767225604,1",
        SERIES,
        "x,1767225606,1,1,0.5,1",
    )
    write(
        folder / "eval.log",
        "[HLE_TRIAL_COMPLETE] task_id=q1",
        "[PROFILE] type=step_complete",
        "[PROFILE] type=step_complete ts_unix=1767225600.5 job_id=j",
    )
    recordings, _, problems = taken(folder)
    assert problems == [
        "orchestrator_usage.jsonl:2: is not JSON that can be read: Expecting value: line 1 column 1"
        " (char 0)",
        "orchestrator_usage.jsonl:3: [1] is not a JSON object",
        "orchestrator_usage.jsonl:4: ts_unix: 'soon' is not a time in seconds since 1970",
        "orchestrator_usage.jsonl:4: ts_unix: is needed",
        "orchestrator_usage.jsonl:5: prompt_tokens: 'many' is not a whole number from 0 on",
        "orchestrator_usage.jsonl:5: cached_tokens: 1.5 is not a whole number from 0 on",
        "prefix_cache_timeseries.csv:2: kv_cache_usage_perc: 'oops' is not a number",
        "prefix_cache_timeseries.csv:2: request_decode_time_seconds_sum: 'inf' is not a number",
        "prefix_cache_timeseries.csv:3: ts_unix: 'never' is not a Unix time",
        "prefix_cache_timeseries.csv:4: 3 cells in 'x,1767225604,1', the header has 6",
        "eval.log:1: ts_unix: '[HLE_TRIAL_COMPLETE] task_id=q1' is not a time",
        "eval.log:2: ts_unix: '[PROFILE] type=step_complete' is not a time",
    ]
    calls = rows(recordings, "calls")
    assert [(row["step"], row.get("prompt_tokens")) for row in calls] == [
        (1, 100),
        (5, None),
        (6, 100),
    ]
    assert len(rows(recordings, "server_metrics")) == 2 + 1 + 4
    assert [row["program_id"] for row in rows(recordings, "gateway_events")] == ["j"]


def test_a_line_without_its_end_is_left_for_the_next_import(folder: Path) -> None:
    """The truncated line of a running job is reported and imported when it is complete."""
    usage, log = folder / "orchestrator_usage.jsonl", folder / "eval.log"
    series = folder / "prefix_cache_timeseries.csv"
    write(usage, USAGE)
    usage.write_text(usage.read_text() + json.dumps(USAGE)[:20])
    series.write_text(f"{SERIES}\nx,1767225600,1,1,0.5,1\nx,1767225602,1,1,0.")
    log.write_text("[PROFILE] type=step_complete ts_unix=17672")
    recordings, _, problems = taken(folder)
    assert [(item.stream, item.position) for item in recordings] == [
        ("orchestrator_usage.jsonl", 0),
        ("prefix_cache_timeseries.csv", 0),
    ]
    said = "the line has no end yet: it is not taken"
    assert problems[0].startswith("orchestrator_usage.jsonl:2: is not JSON")
    assert problems[1:] == [
        f"{place}: {said}" for place in ("prefix_cache_timeseries.csv:3", "eval.log:1")
    ]
    usage.write_text(json.dumps(USAGE))  # whole JSON is whole
    assert len(rows(taken(usage)[0], "calls")) == 1


def test_logs_are_found_beside_the_outputs(tmp_path: Path) -> None:
    """The folders are …/outputs/NAME and …/logs/NAME; of several logs with the same content one is
    read."""
    outputs, logs = tmp_path / "outputs" / NAME, tmp_path / "logs" / NAME
    outputs.mkdir(parents=True)
    logs.mkdir(parents=True)
    write(outputs / "orchestrator_usage.jsonl", USAGE)
    step = "[PROFILE] 2026-01-01 08:00:10.900 task=q1 thread=1 type=step_complete step=0 job_id=j"
    trial = "[INFO] 2026-01-01 08:00:11.900 [HLE_TRIAL_COMPLETE] task_id=q1 job_id=j status=done"
    write(logs / "eval.log", "nothing to count")
    write(logs / "hle_profile.log", trial)
    write(logs / "eval_global.log", step, trial)
    for path in (outputs, logs):
        recordings, trials, problems = taken(path)
        assert problems == []
        streams = [item.stream for item in recordings]
        assert streams == ["orchestrator_usage.jsonl", "trials", "steps"]
        # Local times without a zone, cut to the second as theirs: eight hours ahead of UTC.
        moments = [row["at"].isoformat() for row in rows(recordings, "gateway_events")]
        assert moments == ["2026-01-01T00:00:11+00:00", "2026-01-01T00:00:10+00:00"]
        assert [trial.task_id for trial in trials] == ["q1"]
    ((alone,), _, _) = taken(outputs / "orchestrator_usage.jsonl")
    assert alone.stream == "orchestrator_usage.jsonl"


def result(**more: Any) -> dict[str, Any]:
    """Return a task's result in ThunderAgent's format."""
    search = {"tool": "search", "query": "who", "search_results_data": ["doc"], "context_str": "…"}
    answer = {"tool": "answer", "pred": " 42 ", "correctness": True, "model": "answer-1"}
    asked = [{"tool_name": "search", "tool_arguments": {"model": "search-1"}}]
    return {
        "id": "q1",
        "problem": "What is it?",
        "all_tool_calls": [],
        "all_tool_responses": {"turn_0_response": [search], "turn_10_response": [answer]},
        "answer": "42",
        "all_message_responses": {
            "turn_10_message": {"content": None, "tool_calls": [{"tool_name": "answer"}]},
            "turn_0_message": {"content": "Let me see.", "tool_calls": asked},
        },
        "correct": True,
        "status": "done",
        **more,
    }


def test_a_result_is_a_trial_with_its_trajectory(folder: Path) -> None:
    """Messages are in the order of turns, tools are linked to their calls, and the end time comes
    from the log."""
    write(folder / "q1.json", result())
    write(folder / "window_summary.json", {"ok": False})
    line = (
        "[HLE_TRIAL_COMPLETE] ts_unix=1767225700.500 task_id=q1 job_id=j status=done correct=True"
    )
    write(folder / "eval.log", line)
    _, (trial,), problems = taken(folder)
    assert problems == []
    roles = [(m["role"], m.get("name"), m.get("tool_call_id")) for m in trial.messages]
    assert roles == [
        ("user", None, None),
        ("assistant", None, None),
        ("tool", "search", "turn_0_0"),
        ("assistant", None, None),
        ("tool", "answer", "turn_10_0"),
    ]
    assert "context_str" not in trial.messages[2]["content"]
    assert [(run["step"], run["name"]) for run in trial.tool_runs] == [
        (1, "search"),
        (11, "answer"),
    ]
    outcome = trial.outcome
    assert (outcome["status"], outcome["score"], outcome["answer"]) == ("ok", 1.0, "42")
    assert outcome["ended_at"].timestamp() == 1767225700.5
    assert (trial.scores[0]["value"], json.loads(trial.scores[0]["detail"])) == (
        1,
        {"expected": "42"},
    )


@pytest.mark.parametrize(
    ("more", "status", "score"),
    [
        ({"correct": False}, "ok", 0.0),
        ({"correct": False, "all_tool_responses": {}}, "limit", 0.0),
        ({"correct": False, "status": "error", "error_type": "Timeout"}, "infra_error", None),
    ],
)
def test_what_a_result_counts_as(
    folder: Path, more: dict[str, Any], status: str, score: float | None
) -> None:
    """No answer in any round is a limit; a failed tool is no wrong answer."""
    write(folder / "q1.json", result(**more))
    _, (trial,), _ = taken(folder)
    assert (trial.outcome["status"], trial.outcome.get("score")) == (status, score)
    assert trial.outcome.get("error_type") == more.get("error_type")


def test_odd_results_are_named(folder: Path) -> None:
    """Broken JSON and fields of another type are reported; other JSON files are ignored."""
    (folder / "q0.json").write_text("{")
    write(folder / "q1.json", result(all_tool_responses=[], all_message_responses={"x": 1}))
    write(folder / "ports.json", {"router": 1})
    _, (trial,), problems = taken(folder)
    assert problems[0].startswith("q0.json: is not JSON")
    assert problems[1:] == [
        "q1.json: all_tool_responses: [] is not an object",
        "q1.json: all_message_responses: 'x' is no turn",
    ]
    assert len(trial.messages) == 1


@pytest.mark.parametrize("name", ["nothing here", "missing"])
def test_a_folder_without_a_run_is_said(tmp_path: Path, name: str) -> None:
    (tmp_path / "nothing here").mkdir()
    assert len(taken(tmp_path / name)[2]) == 1


def test_a_store_takes_a_run_once(catalog: storage.Catalog, folder: Path) -> None:
    """The second import adds no attempts and no records."""
    write(folder / "orchestrator_usage.jsonl", USAGE, USAGE)
    write(folder / "q1.json", result())
    line = "x,1767225600,500,nan,0.25,nan"
    write(folder / "prefix_cache_timeseries.csv", SERIES, line)
    for expected in ((1, 3), (0, 0)):
        report = load(catalog, read(folder, "run"), "thunderagent")
        assert (report.taken, report.records, report.problems) == (*expected, [])
    sql = "select (select count(*) from calls) c, (select count(*) from server_metrics) m, (select "
    sql += "any_value(policy) from attempts) p, (select count(*) from messages) n"
    assert storage.query(sql, catalog.home) == [{"c": 2, "m": 3, "p": "thunderagent", "n": 5}]
