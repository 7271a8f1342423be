"""Tests that the flow train-policy serves a suite's other models separately from the trained
one."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import NewCatalog
from tutti.flows.train_policy import _entries
from tutti.storage import Home
from tutti.tasks.platform.project import POCKET, PROJECT
from tutti.tasks.serving import RegistryError
from tutti.tasks.sweeps.plan import Deployment
from tutti.tasks.training.policy import PolicyJob, read_policy_job

JOB = PROJECT / "deployments" / "training" / "epo-negotiation.yaml"
ENGINE = {"kv_blocks": 64, "max_sequences": 8, "max_batched_tokens": 2048}


@pytest.fixture
def job() -> PolicyJob:
    """Return a job with a strategist that is trained and an actor that is not."""
    return read_policy_job(JOB)


def registry(folder: Path, **actor: Any) -> Path:
    """Write two entries of the pocket model; `actor` has the second's engine settings."""
    entry = {"provider": "vllm", "checkpoint": str(POCKET), "context_tokens": 512}
    models = {"strategist": entry | {"engine": ENGINE}, "actor": entry | {"engine": ENGINE | actor}}
    file = folder / "models.yaml"
    file.write_text(yaml.safe_dump({"models": models}))
    return file


@pytest.mark.parametrize("blocks", [64, 96], ids=["equal settings", "others"])
def test_the_actor_has_an_engine_of_its_own_and_only_the_strategist_is_recorded(
    job: PolicyJob, tmp_path: Path, new_catalog: NewCatalog, blocks: int
) -> None:
    """This also holds if both have the same weights and settings: in a shared engine, the actor
    would change with the strategist."""
    entries = _entries(job, registry(tmp_path, kv_blocks=blocks))
    assert list(entries) == ["strategist", "actor"]
    assert entries["strategist"].record_tokens and not entries["actor"].record_tokens
    catalog = new_catalog(Home(tmp_path / "home"))
    serving = Deployment(entries, catalog, trained_by=job.trained_by)
    assert len({engine.engine_id for engine in serving.every}) == 2
    assert [list(engine.entries) for engine in serving.every] == [["strategist"], ["actor"]]


def test_a_missing_actor_is_named(job: PolicyJob, tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="no model 'actor'"):
        _entries(job.model_copy(update={"base": "pocket"}), PROJECT / "deployments" / "models.yaml")
