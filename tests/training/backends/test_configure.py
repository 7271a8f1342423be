"""Tests of configurations of other trainers: golden values, refused typos, the backends' own
schemas."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

import yaml

from tests.training.backends.jobs import conversations, job
from tests.training.trainer.pocket import POCKET
from tutti.storage import Catalog
from tutti.tasks.training import TrainingSet, checkpoints, configure_backend
from tutti.tasks.training.backends import BACKENDS, backend_of, configure
from tutti.tasks.training.backends.base import (
    BackendJob,
    BackendRefused,
    check_names,
    flat,
    known_names,
)
from tutti.tasks.training.jobs.job import TrainJob

RENDERER = {"renderer": {"name": "qwen3"}}
"""prime-rl trains with typed renderers only, and none is registered for the small model."""


@pytest.fixture()
def data(tmp_path: Path, catalog: Catalog) -> TrainingSet:
    return conversations(tmp_path, catalog)


def written(given: TrainJob, data: TrainingSet, out: Path, catalog: Catalog) -> dict[str, Any]:
    return configure_backend(given, POCKET, data, out, catalog)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", BACKENDS)
def test_a_job_is_written_with_names_that_the_backend_has(
    name: str, tmp_path: Path, data: TrainingSet, catalog: Catalog
) -> None:
    """Every written setting is in the backend's own list, and no path is in the unfinished
    folder."""
    out = tmp_path / "out"
    made = written(job(name), data, out, catalog)
    assert made["launch"] == f"bash {out / 'launch.sh'}"
    files = [file for file in out.rglob("*") if file.suffix in {".yaml", ".toml", ".txt", ".json"}]
    texts = [(out / "launch.sh").read_text(), *(file.read_text() for file in files)]
    assert not any(f".{out.name}-" in text for text in texts)
    plan = BackendJob(job(name), POCKET, data, out)
    check_names(backend_of(name), backend_of(name).configuration(plan))


@pytest.mark.usefixtures("unchecked")
def test_golden_llama_factory(tmp_path: Path, data: TrainingSet, catalog: Catalog) -> None:
    out = tmp_path / "out"
    given = job("llama-factory", backend_settings={"lora_dropout": 0.1}, dtype="float32")
    written(given, data, out, catalog)
    made = yaml.safe_load((out / "llama-factory.yaml").read_text())
    assert made == {
        "model_name_or_path": str(POCKET), "stage": "sft", "do_train": True,
        "finetuning_type": "lora", "dataset": "tutti", "tokenized_path": str(out / "tokens"),
        "cutoff_len": 2048, "output_dir": str(out / "output"), "overwrite_output_dir": True,
        "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1,
        "learning_rate": 2e-3, "weight_decay": 0.0, "adam_beta1": 0.9, "adam_beta2": 0.95,
        "max_grad_norm": 1.0, "warmup_steps": 0, "lr_scheduler_type": "constant_with_warmup",
        "max_steps": 3, "bf16": False, "disable_gradient_checkpointing": True, "seed": 0,
        "data_seed": 0, "logging_steps": 1, "include_num_input_tokens_seen": "non_padding",
        "save_strategy": "no", "report_to": "none", "lora_rank": 8, "lora_alpha": 16,
        "lora_target": "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj",
        "lora_dropout": 0.1,
    }  # fmt: skip


@pytest.mark.usefixtures("unchecked")
def test_conversations_reach_the_cluster(
    tmp_path: Path, data: TrainingSet, catalog: Catalog
) -> None:
    """There are 24 rows to train on and 6 held out; nested settings replace only single values."""
    out = tmp_path / "out"
    given = job("nemo-rl", backend_settings={"cluster": {"num_nodes": 2}, "sft.val_period": 5})
    written(given, data, out, catalog)
    counts = [
        len((out / "data" / f).read_text().splitlines()) for f in ("train.jsonl", "held_out.jsonl")
    ]
    assert counts == [24, 6]
    lines = (out / "overrides.txt").read_text().splitlines()
    assert {"++cluster.num_nodes=2", "++sft.val_period=5", "++sft.max_num_steps=3"} <= {*lines}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("name", "fields", "said"),
    [
        (name, {"backend_settings": settings}, said)
        for name, settings, said in [
            ("llama-factory", {"lora_droput": 0.1}, "settings.lora_droput: .* lora_dropout?"),
            ("trl", {"packng": True}, "backend_settings.packng: .* did you mean packing?"),
            ("verl", {"optim": {"lrr": 1}}, "backend_settings.optim.lrr: .* optim.lr?"),
            ("nemo-rl", {"policy": {"precison": 1}}, "policy.precison: .* policy.precision?"),
            ("prime-rl", {"optim": {"max_nrom": 1}}, "optim.max_nrom: .* optim.max_norm?"),
        ]
    ]
    + [
        ("verl", {"minutes": 1}, "minutes: verl ends by `epochs` or `steps`"),
        ("verl", {"optimizer": {"schedule": "linear"}}, "optimizer.schedule: verl has cosine"),
        ("nemo-rl", {"optimizer": {}}, "optimizer.schedule: nemo-rl is written with"),
        ("trl", {"optimizer": {"schedule": "linear", "final_share": 0.1}}, "optimizer.final_share"),
    ],
)
def test_a_typo_and_what_a_backend_cannot_do_are_refused(
    name: str,
    fields: dict[str, Any],
    said: str,
    tmp_path: Path,
    data: TrainingSet,
    catalog: Catalog,
) -> None:
    """And nothing is written."""
    with pytest.raises(BackendRefused, match=said):
        written(job(name, **fields), data, tmp_path / "out", catalog)
    assert not any(each.name.startswith(("out", ".out")) for each in tmp_path.iterdir())


def test_our_own_jobs_keep_their_ids() -> None:
    """The two fields are not part of a checkpoint's settings if tutti trains."""
    ours, theirs = checkpoints.settings_of(job("tutti")), checkpoints.settings_of(job("trl"))
    assert "backend" not in ours and theirs["backend"] == "trl"
    with pytest.raises(ValueError, match="backend_settings: are for another `backend`"):
        job("tutti", backend_settings={"a": 1})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama-factory", "trl", "verl", "prime-rl"])
def test_its_own_schema_takes_ours_and_refuses_a_typo(
    name: str, tmp_path: Path, data: TrainingSet, catalog: Catalog
) -> None:
    """The backend itself checks them in its environment."""
    if configure.backend_python(name) is None:
        pytest.skip(f"no environment of {name}: make backends, or TUTTI_…_PYTHON")
    more = RENDERER if name == "prime-rl" else {}
    made = written(job(name, backend_settings=more), data, tmp_path / "out", catalog)
    assert made["checked"].startswith(f"{name}'s own schema")
    wrong = {"verl": {"optim": {"lrr": 1}}, "prime-rl": {"optim": {"lrr": 1}}}
    typo = wrong.get(name, {"lrr": 1})
    with pytest.raises(BackendRefused, match=f"{name}: its schema refuses this: .*lrr"):
        written(job(name, backend_settings={**more, **typo}), data, tmp_path / "no", catalog)
    assert not (tmp_path / "no").exists()


def test_names_are_listed_with_their_version() -> None:
    for name in BACKENDS:
        version, names = known_names(name)
        assert any(c.isdigit() for c in version) and names == sorted(names) and len(names) > 100


def test_dotted_and_nested_names_are_one() -> None:
    assert [*flat({"a": {"b": 1}, "c.d": 2, "e": {}})] == [("a.b", 1), ("c.d", 2), ("e", {})]
