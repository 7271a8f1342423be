"""Tests of the verbs: help, exit codes, and one message for errors that a user can fix."""

import json
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tutti.cli.main import app

VERBS = [
    *(["doctor"], ["demo"], ["synth"], ["derive"], ["index"], ["serve"], ["report"], ["sql"]),
    *(["sweep", "run"], ["sweep", "status"], ["train", "pocket"]),
]
BAD_MODELS = "models: {pocket: {provider: vlm, checkpoint: x, context_tokens: 12}}"


def run(*arguments: str, home: Path) -> Result:
    return CliRunner().invoke(app, arguments, env={"TUTTI_HOME": str(home), "COLUMNS": "200"})


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_has_help_and_json(verb: list[str], tmp_path: Path) -> None:
    shown = run(*verb, "--help", home=tmp_path)
    assert shown.exit_code == 0 and "--json" in shown.output


def test_a_colon_in_help_is_no_emoji(tmp_path: Path) -> None:
    """Rich rendered `task_set:ID:` as an emoji."""
    assert "\U0001f194" not in run("run", "--help", home=tmp_path).stdout


def test_help_is_quick() -> None:
    """Heavy modules are imported inside the verbs; the best of three tries counts, because the
    machine may be busy.

    CPU seconds are measured: three workers share two cores here, and waiting for one is not work.
    """
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "tutti.cli.main", "--help"], check=True, capture_output=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(seconds) < 1.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sql", "selec 1"], "syntax error"),
        (["sql", "select nope from attempts"], 'column "nope" not found'),
        (["sweep", "run", "nope"], "no such suite; known there: bfcl"),
        (["synth", "--families", "bogus"], "no family 'bogus'; known: module"),
        (["report", "bogus"], "no sweep 'bogus'; known: none yet"),
    ],
)
def test_bad_usage_is_one_message_and_exit_2(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    done = run(*arguments, home=tmp_path)
    assert done.exit_code == 2
    assert words in done.stderr and "Traceback" not in done.stderr


def test_a_bad_suite_names_file_field_and_value(tmp_path: Path) -> None:
    suite = tmp_path / "bad.yaml"
    suite.write_text("policies: [fastest]\nconcurrency: [0]\nextra: 1\n")
    done = run("sweep", "run", str(suite), home=tmp_path)
    assert done.exit_code == 2
    for words in (str(suite), "policies.0", "'fastest'", "concurrency", "extra"):
        assert words in done.stderr


@pytest.mark.parametrize("verb", ["run", "plan"])
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("roles: {judge: pocket}\n", "judge: gsm8k is scored by 'numeric', which asks none"),
        ("roles: {agent: nowhere.yaml}\n", "agent: nowhere.yaml: no such file"),
        ("load: {kind: trace, file: nowhere.csv}\n", "load.file: nowhere.csv: "),
    ],
)
def test_what_is_seen_later_names_the_suite_too(
    verb: str, more: str, said: str, tmp_path: Path
) -> None:
    """Each field of the suite is valid by itself; a flag may have set the same value."""
    suite, data = tmp_path / "mine.yaml", tmp_path / "test.jsonl"
    data.write_text(json.dumps({"question": "What is 1 plus 2?", "answer": "#### 3"}) + "\n")
    suite.write_text(f"benchmark: gsm8k\ndata: {{source: {data}}}\npolicies: [passthrough]\n{more}")
    done = run("sweep", verb, str(suite), home=tmp_path / "home")
    assert done.exit_code == 2
    assert said in done.stderr and f"(in {suite}, or by a flag)" in done.stderr


def test_where_it_was_said_is_no_part_of_a_command_to_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message of several lines ends with commands, so the suite's path follows on a line of its
    own."""
    monkeypatch.delenv("TUTTI_LEAN_PROJECT", raising=False)
    monkeypatch.delenv("TUTTI_LEAN_COMMAND", raising=False)
    suite, row = (
        tmp_path / "mine.yaml",
        {"name": "a", "formal_statement": "theorem a : 1 = 1 :="},
    )
    (tmp_path / "test.jsonl").write_text(json.dumps(row | {"header": "", "split": "test"}) + "\n")
    suite.write_text(f"benchmark: minif2f\ndata: {{source: {tmp_path}}}\npolicies: [passthrough]\n")
    done = run("sweep", "plan", str(suite), home=tmp_path / "home")
    assert done.exit_code == 2 and "tutti: benchmark: minif2f: proofs are" in done.stderr
    assert f"\nexport TUTTI_LEAN_PROJECT=$PWD\n(in {suite}, or by a flag)\n" in done.stderr


def test_sql_formats(tmp_path: Path) -> None:
    statement = "select 1 as a, null as b, 'x,y' as c"
    assert run("sql", "--format", "csv", statement, home=tmp_path).stdout == 'a,b,c\n1,,"x,y"\n'
    decoded = json.loads(run("sql", "--json", statement, home=tmp_path).stdout)
    assert decoded == [{"a": 1, "b": None, "c": "x,y"}]
    assert "1 row" in run("sql", statement, home=tmp_path).stdout
    piped = CliRunner().invoke(
        app, ["sql", "-", "--json"], input="select 2 n", env={"TUTTI_HOME": str(tmp_path)}
    )
    assert json.loads(piped.stdout) == [{"n": 2}]


@pytest.mark.timeout(60)
@pytest.mark.slow
def test_bad_models_and_a_taken_port_are_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUTTI_MODELS_PYTHON", sys.executable)  # what is there is looked at first
    models = tmp_path / "models.yaml"
    models.write_text(BAD_MODELS)
    done = run("serve", "pocket", "--models", str(models), home=tmp_path / "home")
    assert done.exit_code == 2
    for words in (str(models), "models.pocket.provider", "'vlm'", "models.pocket.context_tokens"):
        assert words in done.stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("serve", "pocket", "--port", str(port), home=tmp_path / "home")
    assert done.exit_code == 1
    assert f"port {port} is taken by another process" in done.stderr
    assert not list((tmp_path / "home" / "logs").glob("vllm-*"))
