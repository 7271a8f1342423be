"""Tests of `tutti import`, `export` and `view`."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.exchange.test_atif import RESULT, TRAJECTORY, job
from tests.ports import free_ports
from tutti import storage
from tutti.cli.main import app
from tutti.tasks.exchange import EXPORTERS, IMPORTERS, detect


def run(*arguments: str | Path, home: Path) -> Result:
    environment = {"TUTTI_HOME": str(home), "COLUMNS": "200"}
    return CliRunner().invoke(app, [str(a) for a in arguments], env=environment)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return the folder of a Harbor job with three trials."""
    names = {name: RESULT | {"trial_name": f"hello__{name}"} for name in "abc"}
    return job(tmp_path / "job", **names)


@pytest.mark.parametrize("verb", ["import", "export", "view"])
def test_help_and_json(verb: str, home: Path) -> None:
    shown = run(verb, "--help", home=home)
    assert shown.exit_code == 0 and "--json" in shown.output


def test_import_finds_the_format_and_adds_nothing_twice(logs: Path, home: Path) -> None:
    first = run("import", logs, home=home)
    assert first.exit_code == 0, first.output
    assert first.stdout == "3 attempts imported, 0 known already; 0 problems; in job-7\n"
    second = run("import", "atif", logs, "--json", home=home)
    found = json.loads(second.stdout)
    assert second.exit_code == 0
    assert (found["taken"], found["there"], found["problems"]) == (0, 3, [])
    rows = json.loads(run("sql", "--json", "select flow, status from runs", home=home).stdout)
    assert rows == [{"flow": "import", "status": "completed"}]


def test_problems_are_listed_and_strict_is_an_exit_code(logs: Path, home: Path) -> None:
    bad = logs / "a" / "agent" / "trajectory.json"
    bad.write_text(json.dumps(TRAJECTORY | {"schema_version": "ATIF-v9"}))
    done = run("import", "auto", logs, home=home)
    assert done.exit_code == 0
    assert f"{bad}: schema_version: 'ATIF-v9' is not ATIF-v1.x" in done.stderr
    assert "3 attempts imported" in done.stdout
    assert run("import", logs, "--strict", home=home).exit_code == 1
    named = json.loads(run("import", logs, "--json", home=home).stdout)["problems"]
    assert (str(bad), "schema_version") in [(p["file"], p["field"]) for p in named]


def test_many_problems_are_counted(tmp_path: Path, home: Path) -> None:
    for number in range(25):
        (tmp_path / f"{number}_trajectory.json").write_text("{")
    done = run("import", "atif", tmp_path, home=home)
    assert done.exit_code == 1  # nothing could be taken
    assert len(done.stderr.splitlines()) == 21 and "and 5 more" in done.stderr


def test_files_of_one_name_in_two_folders_are_two_runs(tmp_path: Path, home: Path) -> None:
    """A run without a name in its files is not taken for another with the same file name."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "trajectory.json").write_text(json.dumps(TRAJECTORY))
    paths = [tmp_path / folder / "trajectory.json" for folder in ("one", "two")]
    assert "2 attempts imported" in run("import", *paths, home=home).stdout
    named = run("import", *paths, "--name", "same", home=home)
    assert "1 attempts imported, 1 known already" in named.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["import", "nowhere"], 2, "nowhere: no such file or folder"),
        (["import", "inspect"], 2, "no path to import"),
        (["import"], 2, "Missing argument"),
        (["import", "cli"], 1, "the format was not recognised; name it: inspect, atif"),
        (["export", "csv", "--out", "x"], 2, "no export format 'csv'; known: inspect, atif"),
        (["export", "atif", "--out", "x", "--sweep", "s"], 2, "no sweep 's'; known: none yet"),
        (["export", "atif", "--out", "x", "--cell", "c"], 2, "no cell 'c'"),
        (["export", "atif", "--out", "x", "--where", "colour = 1"], 2, '"colour" not found'),
        (["export", "atif", "--out", "x", "--where", "1 = ="], 2, "syntax error"),
        (["view"], 2, "no attempts yet; run `tutti demo`"),
        (["export", "atif", "--out", "x"], 1, "no stored attempt matches the selection"),
    ],
)
def test_bad_usage(arguments: list[str], code: int, words: str, home: Path) -> None:
    out = home.parent / "x"
    done = run(*(str(out) if word == "x" else word for word in arguments), home=home)
    assert done.exit_code == code
    assert words in done.stderr and "Traceback" not in done.stderr
    assert not out.exists()


def test_export_chooses_and_does_not_overwrite(logs: Path, home: Path, tmp_path: Path) -> None:
    run("import", logs, home=home)
    out = tmp_path / "out"
    done = run(
        "export", "atif", "--out", out, "--where", "score = 1", "--sweep", "job-7", home=home
    )
    assert done.exit_code == 0 and done.stdout == f"3 attempts in 3 files in {out}\n"
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    again = run("export", "atif", "--out", out, home=home)
    assert again.exit_code == 1 and "exists already; --force replaces it" in again.stderr
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == before
    forced = json.loads(run("export", "atif", "--out", out, "--force", "--json", home=home).stdout)
    assert forced["attempts"] == 3 and len(list(out.iterdir())) == 3
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert "0 attempts imported, 3 known already" in run("import", out, home=home).stdout


def test_thunderagents_summaries_of_a_sweep(logs: Path, home: Path, tmp_path: Path) -> None:
    """There is one folder per cell with three files, for any window; nothing is overwritten without
    a flag."""
    assert run("import", logs, home=home).exit_code == 0
    out = tmp_path / "theirs"
    asked = ("export", "thunderagent", "--out", out, "--window", "0,60", "--json")
    done = run(*asked, home=home)
    assert done.exit_code == 0, done.output
    files = [Path(name) for name in json.loads(done.stdout)["files"]]
    names = {"window_summary.json", "steps_summary.json", "combined_summary.json"}
    names |= {"orchestrator_usage.jsonl"}
    assert {file.name for file in files} == names and {f.parent.parent for f in files} == {out}
    combined = json.loads(next(f for f in files if f.name.startswith("combined")).read_text())
    assert {"ok", "windows", "steps", "paths"} <= combined.keys()
    assert "--force" in run(*asked, home=home).output
    assert run(*asked, "--force", home=home).exit_code == 0
    wrong = run("export", "thunderagent", "--out", out, "--window", "9,1", home=home)
    assert wrong.exit_code == 2 and "is not START,END in seconds" in wrong.output


def test_swe_bench_there_and_back(home: Path, tmp_path: Path) -> None:
    """A sweep's predictions are exported; importing the report's verdicts adds no attempt and no
    verdict twice."""
    report = {"submitted_ids": ["a__a-1"], "resolved_ids": ["a__a-1"]}
    file = tmp_path / "m.night.json"
    file.write_text(json.dumps(report))
    assert run("import", file, home=home).exit_code == 0
    out = tmp_path / "out"
    done = run("export", "swe-bench", "--sweep", "night", "--out", out, home=home)
    assert done.exit_code == 0, done.output
    assert "1 predictions in 1 files" in done.stdout and "1 answers have no diff" in done.stderr
    (out / "m.late.json").write_text(json.dumps(report))
    onto = ("import", "swe-bench", out / "m.late.json", "--onto", "night", "--json")
    assert json.loads(run(*onto, home=home).stdout)["added"] == 1
    assert json.loads(run(*onto, home=home).stdout)["known"] == 1
    wrong = run("import", "atif", file, "--onto", "night", home=home)
    assert wrong.exit_code == 2 and "--onto takes reports of swe-bench" in wrong.stderr


def test_every_format_is_in_the_help_and_loads() -> None:
    from tutti.cli.store.exchange import FORMATS

    assert FORMATS.split(", ") == list(IMPORTERS)
    assert EXPORTERS.keys() <= IMPORTERS.keys()


@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("a.eval", "", "inspect"),
        ("a.json", '{"version": 2, "status": "success", "eval": {"eval_id": "x"', "inspect"),
        ("a.json", '{\n "schema_version": "ATIF-v1.4"', "atif"),
        ("result.json", '{"task_name": "a", "trial_name": "b"}', "atif"),
        ("orchestrator_usage.jsonl", "{}", "thunderagent"),
        ("hit_timeseries.csv", "", "thunderagent"),
        ("output-rs0.jsonl", "{}", "nemo-skills"),
        ("samples_gsm8k_2026-01-01T00-00-00.jsonl", "{}", "lm-eval"),
        ("x.jsonl", '{"doc_id": 1, "resps": [[""]]}', "lm-eval"),
        ("x.jsonl", '{"generation": "", "expected_answer": ""}', "nemo-skills"),
        ("results.jsonl", '{"example_id": 0, "completion": [], "reward": 1.0}', "verifiers"),
        ("eval_rollouts.jsonl", "{}", "verifiers"),
        ("results.json", '{"timestamp": "x", "info": {"git_commit": "y"', "tau2"),
        ("tb.lock", "{}", "terminal-bench"),
        (
            "results.json",
            '{"results": [{"trial_name": "a", "is_resolved": null, "failure_mode": "',
            "terminal-bench",
        ),
        ("my_trajectory.traj.json", "{}", "mini-swe-agent"),
        ("x.json", '{"info": {"model_stats": {"instance_cost": 0.1', "mini-swe-agent"),
    ],
)
def test_detect(tmp_path: Path, name: str, content: str, format: str) -> None:
    (tmp_path / "folder").mkdir()
    file = tmp_path / "folder" / name
    file.write_text(content)
    assert detect(file) == detect(tmp_path / "folder") == detect(tmp_path) == format


def test_detect_says_what_it_knows(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(storage.StoreError, match="inspect, atif, verifiers"):
        detect(tmp_path)


def test_the_viewers_taken_port_is_told_with_another(home: Path) -> None:
    """The message suggests another port, because the viewer does not choose a free one itself."""
    pytest.importorskip("inspect_ai")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("view", "--port", port, home=home)
    assert done.exit_code == 1 and f"(`--port {port + 1}`, for example)" in done.stderr


@pytest.mark.e2e
def test_view_serves_the_logs_and_ends_with_us(logs: Path, home: Path) -> None:
    """The real viewer serves the newest sweep; after SIGTERM and after SIGKILL no process is
    left."""
    pytest.importorskip("inspect_ai")
    run("import", logs, home=home)
    port = free_ports()
    for end in (signal.SIGTERM, signal.SIGKILL):
        command = [sys.executable, "-m", "tutti.cli.main", "view", "--json", "--port", str(port)]
        environment = {**os.environ, "TUTTI_HOME": str(home)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as viewer:
            assert viewer.stdout is not None
            shown = json.loads(viewer.stdout.readline())
            assert shown["attempts"] == 3
            with urllib.request.urlopen(f"{shown['url']}api/log-files") as answer:
                (listed,) = json.loads(answer.read())["files"]
            assert listed["name"].startswith(f"file://{shown['folder']}")
            viewer.send_signal(end)
        assert viewer.returncode == (0 if end == signal.SIGTERM else -signal.SIGKILL)
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)):
                    break
            time.sleep(0.1)
        else:
            pytest.fail("the viewer still listens")
