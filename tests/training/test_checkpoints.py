"""Tests that a checkpoint is entered once, with its steps and ancestors, after a kill at any
point."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

from tests.conftest import NewCatalog
from tests.serving.weights.checkpoints import (
    gguf_bytes,
    make_cache,
    make_checkpoint,
    split_checkpoint,
)
from tutti.storage import Catalog, Home, StoreBusy, held, query
from tutti.storage.read.lineage_graph import walk
from tutti.tasks.platform.progress import StageLog
from tutti.tasks.platform.progress.runs import Run
from tutti.tasks.serving import WeightsError
from tutti.tasks.serving.weights import weights_id
from tutti.tasks.training import (
    Checkpoint,
    JobError,
    TrainingData,
    TrainingSet,
    TrainJob,
    base_of,
    checkpoints,
    conversation_set,
    ends_of_base,
    fit_set,
)

BESIDE = (".best", ".state", ".settings.json")
"""What a trainer goes on from, beside the folder that it makes."""
GGUF = {"token_embd.weight": (0, (8, 4), 128)}
STEPS = [{"step": n, "tokens": 10 * n, "loss": 3.0 - n} for n in (1, 2)]


@pytest.fixture()
def run(tmp_path: Path, new_catalog: NewCatalog) -> Iterator[Run]:
    with new_catalog(Home(tmp_path / "store")) as catalog:
        yield Run(catalog, "run:1", StageLog())


@pytest.fixture()
def base(tmp_path: Path) -> tuple[Path, str]:
    folder = make_checkpoint(tmp_path / "base")
    return base_of(str(folder), tmp_path / "models.yaml")


@pytest.fixture()
def data(tmp_path: Path, run: Run) -> TrainingSet:
    file = tmp_path / "said.jsonl"
    file.write_text('{"messages": [{"role": "assistant", "content": "a"}]}\n')
    return conversation_set(TrainingData(file=file), run.catalog)


class Trainer:
    """Writer of a trainer's output."""

    def __init__(self) -> None:
        self.started = 0

    def __call__(
        self, settings: Any, out: Path, catalog: Catalog, on_report: Any, claim: Any
    ) -> None:
        """Write the output like `run_trainer`: `out` appears whole."""
        self.started += 1
        out.with_suffix(".best").mkdir(parents=True)
        for name in BESIDE[1:]:
            out.with_suffix(name).write_text("{}")
        make_checkpoint(out, {"trained": ("F32", (1,), b"done")})
        result = {"steps": 2, "tokens": 20, "train_s": 1.0, "parameters": 7, "best_held_out": None}
        (out / "training.json").write_text(json.dumps(result | {"log": STEPS}))


@pytest.fixture()
def trainer(monkeypatch: pytest.MonkeyPatch) -> Trainer:
    made = Trainer()
    monkeypatch.setattr(checkpoints, "run_trainer", made)
    return made


def job(**fields: Any) -> TrainJob:
    return TrainJob.model_validate({"base": "b", "data": {"file": "said.jsonl"}} | fields)


def test_a_checkpoint_is_entered_with_its_steps_and_reused(
    run: Run, base: tuple[Path, str], data: TrainingSet, trainer: Trainer
) -> None:
    """Another learning rate gives another checkpoint; another name or saving interval does not."""
    made = fit_set(job(), base, data, run)
    assert not made.reused and made.card["steps"] == 2
    assert fit_set(job(name="x", save_every_s=1), base, data, run) == Checkpoint(
        made.checkpoint_id, made.folder, made.card, reused=True
    )
    other = fit_set(job(optimizer={"learning_rate": 0.5}), base, data, run)
    assert other.checkpoint_id != made.checkpoint_id and trainer.started == 2
    rows = query("select checkpoint_id, step, loss from train_steps order by all", run.catalog.home)
    both = {made.checkpoint_id, other.checkpoint_id}
    assert {row["checkpoint_id"] for row in rows} == both and len(rows) == 4


@pytest.mark.parametrize("cut_off", ["_tidy", "record_steps", "_enter_served", "enter_artifact"])
def test_a_kill_after_the_training_costs_no_training(
    run: Run,
    base: tuple[Path, str],
    data: TrainingSet,
    trainer: Trainer,
    monkeypatch: pytest.MonkeyPatch,
    cut_off: str,
) -> None:
    """The kill is before its state is removed, before the steps are recorded, or before the
    artifact is entered: each step is stored once, and no state to resume is left."""
    with monkeypatch.context() as patched:
        owner: Any = Catalog if cut_off == "enter_artifact" else checkpoints
        patched.setattr(owner, cut_off, _killed)
        with pytest.raises(KeyboardInterrupt):
            fit_set(job(), base, data, run)
    made = fit_set(job(), base, data, run)
    assert not made.reused and trainer.started == 1
    rows = query("select step from train_steps order by step", run.catalog.home)
    assert [row["step"] for row in rows] == [1, 2]
    assert not [name for name in BESIDE if made.folder.with_suffix(name).exists()]
    assert (made.folder / "settings.json").is_file()
    assert fit_set(job(), base, data, run).reused


def _killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_what_an_engine_serves_comes_from_the_training(
    run: Run, base: tuple[Path, str], data: TrainingSet, trainer: Trainer
) -> None:
    """Engines name weights by their content, so the lineage of a cell of this checkpoint leads to
    its set."""
    made = fit_set(job(), base, data, run)
    served = weights_id(made.folder)
    run.catalog.enter_artifact("engine:1", {}, [served])
    up = walk(run.catalog, "engine:1", "up").nodes
    assert {served, made.checkpoint_id, data.set_id, base[1]} <= up.keys()
    assert all(node.entered for node in up.values())
    assert "engine:1" in walk(run.catalog, data.set_id, "down").nodes


def test_two_runs_of_one_job_do_not_share_a_state(
    run: Run, base: tuple[Path, str], data: TrainingSet, trainer: Trainer
) -> None:
    made = fit_set(job(), base, data, run).checkpoint_id
    shutil.rmtree(run.catalog.home.artifact_folder(made))
    with held(run.catalog, f"training {made}"), pytest.raises(StoreBusy, match=made):
        fit_set(job(), base, data, run)
    assert trainer.started == 1


def test_a_base_may_be_shards_or_a_model_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a folder, a registry entry, or the Hub's name with its revision, the result is the folder
    that the trainer reads and the id that the engine has."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    shards = split_checkpoint(make_checkpoint(tmp_path / "one"), tmp_path / "shards", 3)
    snapshot = make_cache(tmp_path / "hub", "org/model", "a" * 40, shards)
    models = tmp_path / "deployments" / "models.yaml"
    models.parent.mkdir()
    entry = {"provider": "vllm", "context_tokens": 512, "engine": {"kv_blocks": 8}}
    entries = {"shards": entry | {"checkpoint": "shards"}}
    entries |= {"hub": entry | {"checkpoint": "org/model@main"}}
    entries |= {"gone": entry | {"checkpoint": "org/model@v2"}}
    models.write_text(yaml.safe_dump({"models": entries}))
    assert base_of(str(shards), models) == (shards, weights_id(shards))
    assert base_of("shards", models) == (shards, weights_id(shards))
    for name in ("hub", "org/model@main", f"org/model@{'a' * 40}"):
        assert base_of(name, models) == (snapshot, weights_id(shards))
    for name in ("gone", "org/model@v2"):
        with pytest.raises(WeightsError, match="org/model@v2: not in the cache"):
            base_of(name, models)
    (tmp_path / "m.gguf").write_bytes(gguf_bytes({"general.architecture": "llama"}, GGUF))
    models.write_text(yaml.safe_dump({"models": {"g": entry | {"checkpoint": "m.gguf"}}}))
    with pytest.raises(WeightsError, match="GGUF form can be served, not trained"):
        base_of("g", models)


def test_trained_weights_in_shards_are_entered_as_what_engines_serve(
    run: Run, base: tuple[Path, str], data: TrainingSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above some size, transformers writes several files."""

    class Sharding(Trainer):
        def __call__(
            self, settings: Any, out: Path, catalog: Catalog, on_report: Any, claim: Any
        ) -> None:
            super().__call__(settings, out, catalog, on_report, claim)
            whole = out.rename(out.with_name("whole"))
            split_checkpoint(whole, out, 2)
            shutil.rmtree(whole)

    monkeypatch.setattr(checkpoints, "run_trainer", Sharding())
    made = fit_set(job(), base, data, run)
    assert run.catalog.parents(weights_id(made.folder)) == [made.checkpoint_id]


def test_the_ends_of_a_base_are_in_its_files(tmp_path: Path) -> None:
    """There are one or several, in either file; without any, a truncated reply could not be
    detected."""
    with pytest.raises(JobError, match="no eos_token_id"):
        ends_of_base(tmp_path)
    (tmp_path / "config.json").write_text('{"eos_token_id": 2}')
    assert ends_of_base(tmp_path) == {2}
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [3, 4]}')
    assert ends_of_base(tmp_path) == {2, 3, 4}
