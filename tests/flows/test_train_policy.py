"""The flow train-policy serves a suite's other models, each apart from the one that is trained."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import NewCatalog
from tutti.flows.train_policy import _check_frozen, _entries
from tutti.storage import Home
from tutti.tasks.progress import StageLog
from tutti.tasks.project import POCKET, PROJECT
from tutti.tasks.serving import RegistryError
from tutti.tasks.sweeps.plan import serving_of
from tutti.tasks.sweeps.run import Bench
from tutti.tasks.training.policy import PolicyJob, read_policy_job

JOB = PROJECT / "deployments" / "training" / "epo-negotiation.yaml"
ENGINE = {"kv_blocks": 64, "max_sequences": 8, "max_batched_tokens": 2048}


@pytest.fixture
def job() -> PolicyJob:
    """A strategist that is trained, an actor that is not."""
    return read_policy_job(JOB)


def registry(folder: Path, **actor: Any) -> Path:
    """Two entries of the pocket model; `actor` are engine settings of the second."""
    entry = {"provider": "vllm", "checkpoint": str(POCKET), "context_tokens": 512}
    models = {"strategist": entry | {"engine": ENGINE}, "actor": entry | {"engine": ENGINE | actor}}
    file = folder / "models.yaml"
    file.write_text(yaml.safe_dump({"models": models}))
    return file


def test_the_actor_is_served_and_only_the_strategist_recorded(
    job: PolicyJob, tmp_path: Path, new_catalog: NewCatalog
) -> None:
    """The first entry is the trained one; an engine of its own serves the actor."""
    file = registry(tmp_path, kv_blocks=96)
    entries = _entries(job, file)
    assert list(entries) == ["strategist", "actor"] and entries["strategist"].record_tokens
    catalog = new_catalog(Home(tmp_path / "home"))
    bench = Bench(serving_of(entries, catalog), None, catalog, StageLog(), None)
    _check_frozen(bench, file)
    assert len(bench.serving.every) == 2


def test_an_actor_on_the_trained_engine_is_refused(
    job: PolicyJob, tmp_path: Path, new_catalog: NewCatalog
) -> None:
    """Its weights would change with the strategist's."""
    file = registry(tmp_path)
    catalog = new_catalog(Home(tmp_path / "home"))
    bench = Bench(serving_of(_entries(job, file), catalog), None, catalog, StageLog(), None)
    with pytest.raises(RegistryError, match=r"models\.actor: is served by the engine of"):
        _check_frozen(bench, file)


def test_a_missing_actor_is_named(job: PolicyJob, tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="no model 'actor'"):
        _entries(job.model_copy(update={"base": "pocket"}), PROJECT / "deployments" / "models.yaml")
