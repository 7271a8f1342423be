"""Tests of the jobs of deployments/training: each can be planned, and the papers' numbers are as
published.

Their figures are written out here, so that a change of a file requires a change of this test.
"""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

from typer.testing import CliRunner

from tutti.cli.main import app
from tutti.flows.train_policy import POCKET
from tutti.tasks.platform.project import DEPLOYMENTS
from tutti.tasks.serving.registry import read_registry
from tutti.tasks.training import TrainJob
from tutti.tasks.training.plans import read_any_job
from tutti.tasks.training.policy import PolicyJob, read_policy_job

FOLDER = DEPLOYMENTS / "training"
JOBS = sorted(FOLDER.glob("*.yaml"))
PAPERS = {"orchestrator-grpo", "epo-sotopia", "dapo-math", "dataenvgym-sft"}
TWINS = {
    "orchestrator-grpo": "orchestrator-grpo-small",
    "epo-sotopia": "epo-negotiation",
    "dapo-math": "dapo-math-small",
    "dataenvgym-sft": "dataenvgym-sft-small",
}


def registry_of(name: str) -> Path:
    """Return the shipped registry that a job's comment names."""
    which = "papers" if name in PAPERS else "small"
    return DEPLOYMENTS / f"models-{which}.yaml"


def planned(path: Path) -> tuple[int, dict[str, Any]]:
    words = ["train", "plan", str(path), "--models", str(registry_of(path.stem)), "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code in (0, 1), done.output
    return done.exit_code, json.loads(done.stdout)


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set up an empty folder, a models environment, no GPU and no key."""
    (tmp_path / "python").touch()
    (tmp_path / "gpus.yaml").write_text("gpus: []")
    monkeypatch.setenv("TUTTI_MODELS_PYTHON", str(tmp_path / "python"))
    monkeypatch.setenv("TUTTI_GPUS", str(tmp_path / "gpus.yaml"))
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "store"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_a_shipped_job_plans(path: Path, tmp_path: Path) -> None:
    """The plan is complete, also if weights are missing; it starts and writes nothing."""
    code, told = planned(path)
    assert (code == 0) == (told["missing"] == [])
    assert told["job"] == path.stem
    assert {"base", "objective", "optimizer", "gpus", "reused"} <= told.keys()
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("name", ["orchestrator-grpo-small", "dapo-math-small", "pocket-grpo"])
def test_a_policy_job_of_the_pocket_model_could_start(name: str) -> None:
    assert planned(FOLDER / f"{name}.yaml")[0] == 0


@pytest.mark.parametrize("name", sorted(PAPERS))
def test_a_papers_job_lacks_its_weights_here(name: str) -> None:
    """The model's size is known nevertheless."""
    code, told = planned(FOLDER / f"{name}.yaml")
    base = told["base"]["name"]
    assert code == 1 and told["could_start"] is False
    lacks = "the Hub's cache has not all of"
    assert any(
        each["what"].startswith(lacks) and f"/{base}@" in each["what"] for each in told["missing"]
    )
    assert told["base"]["parameters"] > 2e9
    assert told["memory"]["weights"]["bytes"] == 4 * told["base"]["parameters"]


@pytest.mark.parametrize(("paper", "twin"), TWINS.items())
def test_a_twin_is_of_the_same_kind_and_objective(paper: str, twin: str) -> None:
    """Each file names the other."""
    large, small = (read_any_job(FOLDER / f"{name}.yaml") for name in (paper, twin))
    assert type(large) is type(small) and large.objective == small.objective
    assert large.objective_settings == small.objective_settings
    assert twin in (FOLDER / f"{paper}.yaml").read_text()
    assert f"{paper}.yaml" in (FOLDER / f"{twin}.yaml").read_text()


def policy(name: str) -> PolicyJob:
    return read_policy_job(FOLDER / f"{name}.yaml")


def test_the_numbers_of_orchestrator_grpo() -> None:
    """The source is train_orchestrator.sh."""
    job = policy("orchestrator-grpo")
    assert (job.rollouts.groups, job.rollouts.group_size, job.rollouts.staleness) == (16, 8, 0)
    assert job.objective_settings == {"low": 0.2, "high": 0.28, "dual": 10, "kl": 1e-4}
    assert (job.objective, job.optimizer.learning_rate, job.optimizer.schedule) == (
        "grpo", 1e-6, "constant",
    )  # fmt: skip
    assert job.suite.sampling.max_tokens == 8768 and job.suite.sampling.temperature == 1.0
    assert (job.suite.limits.max_turns, job.batch_tokens) == (30, 2 * 16384)
    assert job.steps == 10 * (7227 // 16)
    assert job.reward.preference == {"accuracy": 1.0, "cost": 0.1, "latency": 0.1}
    assert (job.reward.advantage, job.reward.least_deviation) == ("mean_std", 0.1)
    entry = read_registry(registry_of("orchestrator-grpo"))["Qwen3-8B"]
    assert entry.context_tokens == 24000 + 8768
    assert entry.prices is not None and entry.prices.prompt == entry.prices.completion == 0.2


def test_the_numbers_of_epo_sotopia() -> None:
    """The sources are examples/train_epo, preprocessing.py and prm.py."""
    job = policy("epo-sotopia")
    assert (job.objective, job.base, job.lora) == ("epo", "Meta-Llama-3-8B-Instruct", None)
    optimizer = job.optimizer
    assert (optimizer.learning_rate, optimizer.schedule) == (1e-6, "cosine")
    assert optimizer.warmup_share == 0.03
    assert job.rollouts.groups * job.rollouts.group_size == 1 * 8
    assert job.steps == 3 * 10000 // 8 and job.batch_tokens == 4096
    assert job.reward.gamma == 0.99
    assert job.reward.process is not None and job.reward.process.weight == 1.0
    assert (job.suite.sampling.temperature, job.suite.limits.max_turns) == (0.7, 20)
    assert job.self_play is not None and 3 * job.self_play.every == job.steps
    entries = read_registry(registry_of("epo-sotopia"))
    assert entries[job.base].context_tokens == 4096
    assert entries[job.base].checkpoint == entries["opponent"].checkpoint
    assert entries["gpt-4o"].served_name == "gpt-4o-2024-08-06"


def test_the_numbers_of_dapo_math() -> None:
    """The sources are arXiv 2503.14476, 4.1, and run_dapo_qwen2.5_32b.sh."""
    job = policy("dapo-math")
    assert (job.objective, job.base) == ("dapo", "Qwen2.5-32B")
    assert (job.rollouts.groups, job.rollouts.group_size) == (512, 16)
    dynamic, overlong = job.rollouts.dynamic, job.reward.overlong
    assert dynamic is not None and overlong is not None
    assert (dynamic.round_groups, dynamic.most_rounds) == (3 * 512, 10)
    assert job.objective_settings == {"low": 0.2, "high": 0.28, "kl": 0.0}
    assert overlong.most_tokens == job.suite.sampling.max_tokens == 16384 + 4096
    assert overlong.buffer_tokens == 4096
    assert (job.optimizer.learning_rate, job.optimizer.weight_decay) == (1e-6, 0.1)
    assert job.optimizer.warmup_share * job.steps == 20
    assert job.optimizer.gradient_clip == 1.0
    assert (job.evaluation.trials, job.evaluation.limit, job.evaluation.every) == (32, 30, 5)
    assert job.suite.sampling.temperature == 1.0
    entry = read_registry(registry_of("dapo-math"))["Qwen2.5-32B"]
    assert entry.context_tokens == job.batch_tokens == 2048 + 20480


def test_the_numbers_of_dataenvgym_sft() -> None:
    """The source is configs/llama_factory/llama3_lora_sft."""
    job = read_any_job(FOLDER / "dataenvgym-sft.yaml")
    assert isinstance(job, TrainJob) and job.lora is not None
    assert (job.base, job.objective, job.epochs) == ("gemma-2-2b-it", "sft", 3)
    assert (job.lora.rank, job.lora.alpha, len(job.lora.targets)) == (8, 16, 7)
    assert (job.optimizer.learning_rate, job.optimizer.schedule) == (1e-4, "cosine")
    assert job.optimizer.warmup_share == job.data.held_out_share == 0.1
    assert (job.batch.sequences, job.batch.max_tokens) == (16, 1024)
    assert job.data.tokens == "template"


def test_the_flows_default_is_the_shipped_job() -> None:
    assert policy("pocket-grpo") == POCKET


def test_the_table_is_80_columns_wide_and_says_what_to_do() -> None:
    path = FOLDER / "orchestrator-grpo.yaml"
    words = ["train", "plan", str(path), "--models", str(registry_of(path.stem))]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    for said in ("8,190,735,360 x 4 B", "577,280", "missing here:", "hf download"):
        assert said in done.stdout


def test_an_invalid_job_is_bad_usage(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("base: pocket\nsuite: {benchmrk: stdlib}\n")
    done = CliRunner().invoke(app, ["train", "plan", "job.yaml"])
    assert done.exit_code == 2 and "job.yaml: line 2" in done.stderr
    assert CliRunner().invoke(app, ["train", "plan", "none.yaml"]).exit_code == 2
