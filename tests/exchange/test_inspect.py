"""Tests of Inspect logs: genuine ones are imported, ours are exported and imported again, broken
ones are reported."""

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from weakref import ref
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from tests.exchange.imported import taken
from tests.exchange.test_load import counts, trial
from tutti import storage
from tutti.storage import catalog as cat
from tutti.tasks.exchange import IMPORTERS
from tutti.tasks.exchange.base.imported import ImportedAttempt, Row
from tutti.tasks.exchange.base.stored import stored_trials
from tutti.tasks.exchange.inspect import read as inspect_import
from tutti.tasks.exchange.inspect.read import judged, read
from tutti.tasks.exchange.inspect.write import write
from tutti.tasks.exchange.loader import load

log = pytest.importorskip("inspect_ai.log")

MAKE = Path(__file__).with_name("inspect_logs.py")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return logs of real evaluations: tools, several epochs and scorers, errors, a limit, JSON."""
    folder = tmp_path_factory.mktemp("logs")
    done = subprocess.run([sys.executable, str(MAKE), str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def exported(catalog: storage.Catalog, logs: Path, tmp_path: Path) -> Path:
    """Return the same logs, imported and exported again."""
    load(catalog, read(logs, "x"), "inspect")
    out = tmp_path / "out"
    out.mkdir()
    write(_stored(catalog.home), out)
    return out


def _stored(home: storage.Home) -> Iterator[ImportedAttempt]:
    connection = storage.connect(home)
    yield from stored_trials(connection)
    connection.close()


def _comparable(trials: Iterator[ImportedAttempt]) -> dict[Any, Row]:
    """Return attempts by their sample, without the fields that name the store."""
    return {
        (t.cell.benchmark, t.cell.model, t.task_id, t.trial, t.attempt): {
            name: value for name, value in vars(t).items() if name not in ("cell", "origin")
        }
        for t in trials
    }


def _of(trials: list[ImportedAttempt], benchmark: str) -> list[ImportedAttempt]:
    return [trial for trial in trials if trial.cell.benchmark == benchmark]


def test_genuine_logs(logs: Path) -> None:
    trials, problems = taken(read(logs, "x"))
    assert not problems
    adder = _of(trials, "adder")
    assert [(t.task_id, t.trial) for t in adder] == [("s1", 0), ("2", 0), ("s1", 1), ("2", 1)]
    first = adder[0]
    roles = [message["role"] for message in first.messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]
    call = first.messages[2]["tool_calls"][0]
    assert (call["name"], call["arguments"]) == ("add", '{"y": 2, "x": 1}')
    assert first.messages[3]["tool_call_id"] == call["id"]
    assert [c["step"] for c in first.calls] == [1, 2]
    assert first.messages[4]["call_id"] == first.calls[1]["call_id"]
    tokens = [(c["prompt_tokens"], c["cached_tokens"], c["completion_tokens"]) for c in first.calls]
    assert tokens == [(10, 4, 3)] * 2
    assert first.outcome["prompt_tokens"] == 20
    assert first.tool_runs[0]["result"] == "3" and first.tool_runs[0]["step"] == 1
    values = {row["scorer"]: (row["value"], row["correct"]) for row in first.scores}
    assert values == {
        "match": (1.0, True),
        "several": (None, None),
        "several/style": (0.5, False),
        "several/length": (1.0, True),
        "unscored": (None, None),
    }
    assert (first.outcome["score"], first.outcome["correct"], first.outcome["answer"]) == (
        1,
        True,
        "3",
    )
    assert first.outcome["started_at"] < first.outcome["ended_at"]


def test_errors_retries_limits_and_tool_errors(logs: Path) -> None:
    trials, _ = taken(read(logs, "x"))
    failing = {(t.task_id, t.attempt): t.outcome for t in _of(trials, "failing")}
    assert failing.keys() == {("s1", 1), ("s1", 2), ("2", 1)}
    for attempt in (1, 2):
        assert failing["s1", attempt]["status"] == "infra_error"
        assert failing["s1", attempt]["error_type"] == "RuntimeError"
        assert "the disk is gone" in failing["s1", attempt]["error_message"]
    assert failing["2", 1]["status"] == "ok"
    (limited,) = _of(trials, "limited")
    assert (limited.outcome["status"], limited.outcome["stop_reason"]) == ("limit", "message")
    (broken,) = _of(trials, "broken-tool")
    assert broken.tool_runs[0]["status"] == "error"
    assert broken.tool_runs[0]["result"] == "x is negative"


def test_twice_adds_nothing(catalog: storage.Catalog, logs: Path) -> None:
    taken_first = load(catalog, read(logs, "x"), "inspect").taken
    before = counts(catalog.home)
    again = load(catalog, read(logs, "x"), "inspect")
    assert (again.taken, again.there) == (0, taken_first)
    assert counts(catalog.home) == before


def test_there_and_back(
    catalog: storage.Catalog, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost in our own log, and our own store imports none of it."""
    before = counts(catalog.home)
    assert load(catalog, read(exported, "x"), "inspect").taken == 0
    assert counts(catalog.home) == before
    ours = _comparable(_stored(catalog.home))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    other = storage.Home(tmp_path / "other")
    with storage.open_catalog(other) as empty:
        report = load(empty, read(exported, "x"), "inspect")
    assert not report.problems
    assert len(ours) == 9 and _comparable(_stored(other)) == ours


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_sweeps_own_rows_come_back(
    catalog: storage.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = cat.now()
    key: dict[str, Any] = {"attempt_id": "attempt:1", "cell_id": "cell:1", "sweep_id": "sweep:1"}
    attempt = key | {"sample_id": "sample:1", "run_id": "run:1", "benchmark": "stdlib"}
    attempt |= {"task_id": "task:1", "trial": 0, "attempt": 1, "model": "pocket", "score": 1.0}
    attempt |= {"policy": "cap", "concurrency": 4, "repeat": 0, "status": "ok", "answer": "2"}
    attempt |= {"started_at": at, "ended_at": at, "correct": True, "working_s": 0.5, "held_s": 0.1}
    call = key | {"call_id": "c1", "step": 1, "role": "orchestrator", "model": "pocket"}
    call |= {"sent_at": at, "admitted_at": at, "ended_at": at, "status": "ok", "latency_s": 0.25}
    score = key | {"scorer": "exact", "scorer_version": "1", "value": 1.0, "correct": True}
    tool = key | {"step": 1, "name": "python", "arguments": "{}", "result": "2", "status": "ok"}
    rows = {
        "attempts": [attempt],
        "messages": [key | {"position": 0, "role": "user", "content": "1+1?"}],
        "calls": [call],
        "scores": [score | {"answer": "2", "scored_at": at}],
        "tool_runs": [tool | {"started_at": at, "ended_at": at}],
    }
    storage.commit(catalog, rows)
    (tmp_path / "out").mkdir()
    write(_stored(catalog.home), tmp_path / "out")
    with storage.open_catalog(storage.Home(tmp_path / "other")) as other:
        report = load(other, read(tmp_path / "out", "x"), "inspect")
        assert (report.taken, report.problems) == (1, [])
        (back,) = storage.query("select scored_at from scores", other.home)
        assert abs(back["scored_at"] - at) < timedelta(milliseconds=1)


def test_inspect_reads_what_we_write(exported: Path) -> None:
    from inspect_ai.log import list_eval_logs, read_eval_log

    logs = {log.eval.task: log for log in map(read_eval_log, list_eval_logs(str(exported)))}
    assert logs.keys() == {"adder", "failing", "limited", "broken-tool"}
    adder = logs["adder"]
    assert adder.status == "success" and adder.eval.config.epochs == 2
    assert adder.results is not None and adder.results.total_samples == 4
    assert adder.stats.model_usage["mockllm/model"].total_tokens == 4 * 26
    assert adder.samples is not None
    sample = adder.samples[0]
    assert [event.event for event in sample.events] == ["model", "tool", "model"]
    assert sample.scores is not None and sample.target
    failed = [s for s in logs["failing"].samples or [] if s.error]
    assert len(failed) == 1 and len(failed[0].error_retries or []) == 1
    limited = (logs["limited"].samples or [])[0].limit
    assert limited is not None and limited.type == "message"


def test_a_trial_without_calls_still_has_a_transcript(tmp_path: Path) -> None:
    """Events derived from the messages are shown and are not imported as calls."""
    bare = trial(0, calls=[], tool_runs=[], scores=[], origin="attempt:1")
    bare.messages[1].pop("call_id")
    bare.messages += [
        {"role": "tool", "tool_call_id": "x", "name": "add", "content": "2"},
        {"role": "developer", "content": "go on"},
        {
            "role": "assistant",
            "content": "é",
            "reasoning": "hm",
            "tool_calls": [
                {"id": "y", "name": "add", "arguments": '{"x":1,'},
            ],
        },
    ]
    (path,) = write(iter([bare]), tmp_path)
    with ZipFile(path) as archive:
        sample = json.loads(archive.read("samples/task-0_epoch_1.json"))
    assert not sample["events"]
    (back,), problems = taken(read(path, "x"))
    assert not problems and not back.calls and not back.tool_runs
    kept = [{k: v for k, v in row.items() if v is not None} for row in back.messages]
    assert kept == bare.messages


def test_a_score_whose_name_has_a_slash_is_written(tmp_path: Path) -> None:
    scores = [
        {"scorer": name, "value": value}
        for name, value in (("style", 1.0), ("style/tone", 0.5), ("exact/strict", 0.25))
    ]
    (path,) = write(iter([trial(0, scores=scores)]), tmp_path)
    with ZipFile(path) as archive:
        sample = json.loads(archive.read("samples/task-0_epoch_1.json"))
    values = {name: score["value"] for name, score in sample["scores"].items()}
    assert values == {"style": 1.0, "exact/strict": 0.25}


def test_numbers_of_scores() -> None:
    given = ["C", "I", "P", "N", "yes", "0.25", True, 3, float("nan"), "great", [1], None, "inf"]
    wanted = [1.0, 0.0, 0.5, 0.0, 1.0, 0.25, 1.0, 3.0, None, None, None, None, None]
    assert [judged(value)["value"] for value in given] == wanted


def test_bad_files_are_named(logs: Path, tmp_path: Path) -> None:
    whole = next(logs.glob("*adder*.eval")).read_bytes()
    bad = {"cut.eval": whole[: len(whole) // 2], "words.eval": b"hello", "none.eval": b""}
    bad |= {"other.json": b'{"a": 1}', "words.json": b"{", "empty.json": b""}
    for name, data in bad.items():
        (tmp_path / name).write_bytes(data)
    trials, problems = taken(read(tmp_path, "x"))
    assert not trials
    assert [problem.file.name for problem in problems] == sorted(bad)


def test_a_bad_sample_is_named_and_the_others_are_taken(exported: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.eval"
    source = next(exported.glob("*adder*.eval"))
    damaged = {
        "samples/s1_epoch_1.json": b"{",
        "samples/2_epoch_1.json": b'{"id": "2", "epoch": 1, "messages": 5}',
        "samples/s1_epoch_2.json": None,
    }
    with ZipFile(source) as old, ZipFile(path, "w", ZIP_DEFLATED) as new:
        for name in old.namelist():
            data = damaged.get(name, old.read(name))
            if data is not None:
                new.writestr(name, data)
    trials, problems = taken(read(path, "x"))
    assert [(t.task_id, t.trial) for t in trials] == [("2", 1)]
    assert {p.field for p in problems} == {"samples.s1.1", "samples.2.1", "samples.s1.2"}


def test_odd_values(exported: Path, tmp_path: Path, catalog: storage.Catalog) -> None:
    """NUL, a lone surrogate, NaN and images are stored unchanged or reported; none causes a
    crash."""
    source = next(exported.glob("*limited*.eval"))
    path = tmp_path / "odd.eval"
    with ZipFile(source) as old, ZipFile(path, "w", ZIP_DEFLATED) as new:
        for name in old.namelist():
            data = json.loads(old.read(name))
            if name.startswith("samples/"):
                data["messages"][0]["content"] = "a\0b"
                data["messages"][1]["content"] = "cut \ud83d"
                image = {"type": "image", "image": "data:image/png;base64,AAAA"}
                data["messages"][2]["content"] = [{"type": "text", "text": "see"}, image]
                data["scores"]["match"]["value"] = float("nan")
                data["metadata"] = {}
            if name == "header.json":
                data["eval"]["eval_id"] = "another"
            new.writestr(name, json.dumps(data))
    report = load(catalog, read(path, "x"), "inspect")
    assert report.taken == 1
    assert {problem.field for problem in report.problems} == {
        "samples.s1.1.messages.2.content",
        "",
    }
    (sweep,) = report.sweeps
    sql = f"select content from messages where sweep_id = '{sweep}' order by position limit 3"
    contents = [row["content"] for row in storage.query(sql, catalog.home)]
    assert contents == ["a\0b", "cut \N{REPLACEMENT CHARACTER}", "see"]


def test_a_log_of_2000_samples_is_read_in_portions(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a portion is read, most samples of the earlier portions have been freed."""
    path = tmp_path / "large.eval"
    (trial,) = _of(taken(read(logs, "x"))[0], "limited")
    (small,) = write(iter([trial]), tmp_path)
    with ZipFile(small) as old, ZipFile(path, "w", ZIP_DEFLATED, compresslevel=1) as new:
        sample = json.loads(old.read("samples/s1_epoch_1.json")) | {"events": []}
        text, (summary,) = json.dumps(sample), json.loads(old.read("summaries.json"))
        new.writestr("header.json", old.read("header.json"))
        new.writestr("summaries.json", json.dumps([{**summary, "id": n} for n in range(2000)]))
        for n in range(2000):
            new.writestr(f"samples/{n}_epoch_1.json", text.replace('"id": "s1"', f'"id": {n}', 1))
    seen: list[ref[Any]] = []
    alive = []

    def watched(*arguments: Any, **options: Any) -> list[Any]:
        alive.append(sum(one() is not None for one in seen))
        found: list[Any] = read_some(*arguments, **options)
        seen.extend(map(ref, found))
        return found

    read_some = log.read_eval_log_samples_by_id
    monkeypatch.setattr(inspect_import, "read_eval_log_samples_by_id", watched)
    monkeypatch.setattr(inspect_import, "BYTES_AT_ONCE", 100 * len(text))
    assert sum(isinstance(item, ImportedAttempt) for item in read(path, "x")) == 2000
    assert len(alive) == 20 and max(alive) <= 300  # cycles wait for the collector


def test_without_inspect_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    with pytest.raises(storage.StoreError, match=r"pip install 'tutti\[inspect\]'"):
        IMPORTERS["inspect"](Path("x.eval"), "x")
