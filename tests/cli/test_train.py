"""Tests of `tutti train sft`: errors are one line, printed before anything is written or
started."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.conftest import NewCatalog
from tests.training.sets.recorded import Attempt, enter
from tutti.cli.main import app
from tutti.storage import Home, query
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.training import checkpoints

FROM = ("--from", "select attempt_id from attempts")
POCKET = ("--base", "pocket")
JOB = """
base: pocket
data:
  from: select attempt_id from attempts
"""
ENTRIES = """
models:
  elsewhere: {provider: openai, context_tokens: 1000}
  empty: {provider: vllm, checkpoint: weights, context_tokens: 1000, engine: {kv_blocks: 32}}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return a store that does not exist yet; starting a trainer fails the test."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    monkeypatch.setattr(checkpoints, "run_trainer", pytest.fail)
    return Home(tmp_path / "home")


def refused(*words: str) -> str:
    """Return the one-line error of an invalid command."""
    done = CliRunner().invoke(app, ["train", "sft", *words])
    assert done.exit_code == 2, done.output
    told = done.stderr.strip().removeprefix("… training set\n")  # where it had to look at the store
    assert told.startswith("tutti: ") and "\n" not in told and "Traceback" not in told
    return told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (POCKET, "no data: --from with a query, --file with conversations, or a job file"),
        (FROM, "base: Field required"),
        ((*FROM, "--base", "poket"), "pocket"),
        ((*FROM, *POCKET, "--file", "said.jsonl"), "either `from` (a query) or `file`"),
        ((*FROM, *POCKET, "--objective", "sfd"), "objective: 'sfd' is none of sft, grpo"),
        ((*FROM, *POCKET, "--steps", "0"), "steps: Input should be greater than or equal to 1"),
        ((*FROM, *POCKET, "--tokens", "both"), "data.tokens: Input should be 'recorded' or 'temp"),
        ((*FROM, *POCKET, "--held-out", "1"), "data.held_out_share: Input should be less than 1"),
        (("--file", "a.jsonl", *POCKET, "--objective", "dpo"), "dpo compares attempts"),
        (("--file", "a.jsonl", *POCKET, "--objective", "grpo"), "grpo reads recorded log prob"),
        ((*FROM, *POCKET, "--objective", "dr_grpo"), "batch.max_tokens: dr_grpo divides by it"),
        (("missing.yaml",), "missing.yaml: no such job"),
    ],
)
def test_a_wrong_flag_is_told_and_nothing_written(
    home: Home, words: tuple[str, ...], said: str
) -> None:
    assert said in refused(*words)
    assert not home.root.exists()


@pytest.mark.parametrize(
    ("base", "said"),
    [
        ("elsewhere", "base: elsewhere has no checkpoint in"),
        ("empty", "weights: no"),
        ("folder", "folder: no weights there"),
        ("else", "elsewhere"),
    ],
)
def test_a_base_without_weights_is_told(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str, said: str
) -> None:
    """The bases are an entry with an endpoint, an entry whose folder is empty, a folder, and a
    missing folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.yaml").write_text(ENTRIES)
    (tmp_path / "folder").mkdir()
    assert said in refused(*FROM, "--base", base, "--models", "models.yaml")
    assert not home.root.exists()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("optimiser: {learning_rate: 1}", "line 5: optimiser: Extra inputs are not permitted; did"
         " you mean `optimizer`?"),
        ("optimizer: {learning_rat: 1}", "line 5: optimizer.learning_rat: Extra inputs are not"
         " permitted; did you mean `optimizer.learning_rate`?"),
        ("objective: spo", "line 5: objective: 'spo' is none of sft, grpo"),
        ("objective: dpo\nobjective_settings: {bta: 1}", "line 6: objective_settings: dpo has no"
         " setting 'bta'; it has beta, wanted, unwanted"),
        ("objective_settings: {beta: 1}", "sft has no setting 'beta'; it has none"),
        ("objective: dpo\nobjective_settings: {beta: high}", "dpo: beta is 'high', which is no"),
        ("objective: grpo\nobjective_settings: {kl: .inf}", "grpo: kl is inf, which is no number"),
        ("seed: 1\nseed: 2", "seed is given twice"),
    ],
)  # fmt: skip
def test_a_wrong_job_file_is_told_with_its_line(
    home: Home, tmp_path: Path, lines: str, said: str
) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(JOB.lstrip() + "name: x\n" + lines + "\n")
    told = refused(str(job))
    assert f"{job}: " in told and said in told
    assert not home.root.exists()


def test_flags_change_what_a_job_says(tmp_path: Path) -> None:
    """The base in the file exists; the one of the flag does not."""
    job = tmp_path / "job.yaml"
    job.write_text(JOB)
    assert "somebody" in refused(str(job), "--base", "somebody")
    assert "'dp' is none of" in refused(str(job), "--objective", "dp")
    assert "no row" in refused(str(job))


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select attempt from attempts where false", "the query gives no row"),
        ("select atempt_id from attempts", '"atempt_id" not found'),
        ("select task_id from attempts", "gives task_id; it must give attempt_id"),
        ("select attempt_id from attempts", "nothing is left to train on: 1 x status cancelled"),
    ],
)
def test_a_query_that_leaves_nothing_is_told(
    home: Home, new_catalog: NewCatalog, sql: str, said: str
) -> None:
    """The run is recorded as failed, and no artifact is stored."""
    with new_catalog(home) as catalog:
        enter(catalog, [Attempt("a", status="cancelled")])
    done = CliRunner().invoke(app, ["train", "sft", *POCKET, "--from", sql])
    assert done.exit_code == 2 and "Traceback" not in done.stderr
    assert "\ntutti: data.from: " in done.stderr and said in done.stderr
    assert not query("select * from artifacts", home)
    (run,) = query("select flow, status from runs", home)
    assert run == {"flow": "train-set", "status": "failed"}


def test_a_bad_line_of_conversations_is_told(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "said.jsonl"
    file.write_text('{"messages": []}\n')
    done = CliRunner().invoke(app, ["train", "sft", *POCKET, "--file", str(file), "--json"])
    assert done.exit_code == 2 and f"{file}:1: no message of the role assistant" in done.stderr
    assert done.stdout == ""
    assert not query("select * from artifacts", home)


def test_the_command_finds_the_shipped_job(home: Home) -> None:
    """For a store without attempts, the error says so and does not call the job invalid."""
    job = PROJECT / "deployments" / "training" / "pocket-sft.yaml"
    assert "the query gives no row" in refused(str(job))
    assert json.loads(query("select params from runs", home)[0]["params"])["base"] == "pocket"
