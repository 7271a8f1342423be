"""Tests that settings that another trainer does not support are refused by field, and that ids of
jobs are stable."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

import yaml
from typer.testing import CliRunner

from tests.training.backends.policy_jobs import job, written
from tutti.cli.main import app
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.scoring import ScorerFailed, score_text
from tutti.tasks.training import JobError
from tutti.tasks.training.backends import POLICY_BACKENDS, policy_backend_of
from tutti.tasks.training.backends.base import BackendRefused, known_names
from tutti.tasks.training.policy import read_policy_job

PROCESS = {"process": {"sql": "select attempt_id, step from tool_runs"}}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"reward": PROCESS}, "reward.process"),
        ({"reward": {"sql": "score - cost_usd"}}, "reward.sql: 'score - cost_usd' is SQL"),
        ({"reward": {"preference": {"accuracy": 1.0}}}, "reward.preference"),
        ({"reward": {"parts": {"a": {"sql": "score"}}}}, "reward.parts"),
        ({"reward": {"permuted": True}}, "reward.permuted"),
        ({"reward": {"least_deviation": 0.1}}, "reward.least_deviation"),
        ({"self_play": {"opponent": "other"}}, "self_play"),
        ({"objective": "epo"}, "objective: epo gives each turn"),
        ({"minutes": 5}, "minutes: it ends by `steps`"),
        ({"rollouts": {"late_factor": 2}}, "rollouts.late_factor"),
    ],
)
def test_what_cannot_be_carried_is_refused(
    fields: dict[str, Any], said: str, tmp_path: Path
) -> None:
    """Every backend refuses it, and nothing is written."""
    for name in POLICY_BACKENDS:
        with pytest.raises(BackendRefused, match=f"{name} cannot be told all of the job: .*{said}"):
            written(job(tmp_path, **fields), name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("suite", "said"),
    [
        ({"benchmark": "stdlib", "data": {}}, "suite.benchmark: stdlib needs tutti's tools"),
        ({"harness": {"command": "run me"}}, "suite.harness.command"),
        ({"benchmark": "bfcl-multi-turn", "data": {}}, "suite.benchmark: attempts at .* by {bfcl}"),
        ({"data": {"scorer": "judge"}, "roles": {"judge": "j"}}, "suite.roles.judge"),
    ],
)
def test_suites_that_tutti_must_run_are_refused(
    suite: dict[str, Any], said: str, tmp_path: Path
) -> None:
    known = job(tmp_path).suite.model_dump(mode="json", exclude_defaults=True)
    with pytest.raises(BackendRefused, match=said):
        written(job(tmp_path, suite=known | suite), "verl", tmp_path / "out")


def test_lengths_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """The cases are a reply as long as the context, and held-out replies of another length for
    verl."""
    made = job(tmp_path)
    assert made.evaluation.suite is not None
    known = made.suite.model_dump(mode="json", exclude_defaults=True)
    long = job(tmp_path, suite=known | {"sampling": {"temperature": 1.0, "max_tokens": 512}})
    with pytest.raises(BackendRefused, match="512 leaves no room for a prompt in the 512 tokens"):
        written(long, "verl", tmp_path / "out")
    other = job(tmp_path, suite=known | {"sampling": {"temperature": 1.0, "max_tokens": 32}})
    with pytest.raises(BackendRefused, match=r"evaluation.suite.sampling.max_tokens: 64; verl has"):
        written(other, "verl", tmp_path / "out")


def test_tasks_on_both_sides_are_refused(tmp_path: Path) -> None:
    made = job(tmp_path)
    same = made.evaluation.model_copy(update={"suite": made.suite})
    with pytest.raises(JobError, match="6 tasks are trained on"):
        written(made.model_copy(update={"evaluation": same}), "verl", tmp_path / "out")


def test_shipped_jobs_are_refused_or_keep_their_ids() -> None:
    """The field for settings is in no content, so earlier checkpoints are reused."""
    for file in (PROJECT / "deployments" / "training").glob("*grpo*.yaml"):
        made = read_policy_job(file)
        other = made.model_copy(update={"backend_settings": {"a": 1}})
        assert "backend_settings" not in made.content and other.content == made.content


def test_names_are_listed_with_their_version() -> None:
    for name in POLICY_BACKENDS:
        version, names = known_names(policy_backend_of(name).schema)
        assert any(c.isdigit() for c in version) and names == sorted(names) and len(names) > 100


async def test_a_text_is_scored_within_a_loop() -> None:
    """A text is scored by the name of a scorer; one that is not pure, or has another version,
    fails."""
    truth = '{"scorer": "choice", "version": "3", "target": {"answer": "C", "choices": 4}}'
    assert score_text(truth, "The answer is (C)").value == 1.0
    with pytest.raises(ScorerFailed, match="written for version 1"):
        score_text(truth.replace('"3"', '"1"'), "C")


def test_the_command_says_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job(tmp_path).model_dump(mode="json", exclude_defaults=True)))
    ask = CliRunner().invoke
    alone = ask(app, ["train", "grpo", str(file), "--backend", "verl"])
    assert alone.exit_code and "give both" in alone.output
    nameless = ask(app, ["train", "grpo", str(file), "--write-only", str(tmp_path / "out")])
    assert nameless.exit_code and "give both" in nameless.output
    command = ["train", "grpo", str(file), "--write-only", str(tmp_path / "out"), "--backend"]
    unknown = ask(app, [*command, "trl"])
    assert (
        unknown.exit_code and "'trl' writes no policy jobs; one of verl, prime-rl" in unknown.output
    )
