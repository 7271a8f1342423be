"""Tests of `plan_job`: counts, missing parts and reused parts; it writes nothing."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

import yaml

from tests.conftest import NewCatalog
from tests.serving.weights.checkpoints import make_cache, split_checkpoint
from tutti.storage import Home, commit
from tutti.tasks.platform.project import POCKET
from tutti.tasks.serving.weights import weights_id
from tutti.tasks.training import JobError
from tutti.tasks.training.checkpoints import settings_of
from tutti.tasks.training.jobs.job import TrainJob
from tutti.tasks.training.plans import JobPlan, plan_job, read_any_job
from tutti.tasks.training.policy import PolicyJob

ENGINE = {"kv_blocks": 32}
POCKET_ENTRY = {
    "provider": "vllm", "checkpoint": str(POCKET), "context_tokens": 512, "engine": ENGINE,
}  # fmt: skip
SUITE = {
    "benchmark": "negotiation", "policies": ["passthrough"], "concurrency": [4],
    "data": {"split": "train"}, "sampling": {"temperature": 1.0, "max_tokens": 16},
    "limits": {"max_turns": 10},
}  # fmt: skip
POLICY = {"base": "pocket", "suite": SUITE, "rollouts": {"groups": 12, "group_size": 8}, "steps": 5}
FILE = {"base": "pocket", "data": {"file": "said.jsonl"}, "batch": {"sequences": 4}, "epochs": 2}


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set up a models environment, no GPU and an empty folder."""
    (tmp_path / "python").touch()
    (tmp_path / "gpus.yaml").write_text("gpus: []")
    monkeypatch.setenv("TUTTI_MODELS_PYTHON", str(tmp_path / "python"))
    monkeypatch.setenv("TUTTI_GPUS", str(tmp_path / "gpus.yaml"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)


def plan(job: Mapping[str, Any], entries: Mapping[str, Any] | None = None) -> JobPlan:
    """Return the plan of a job's file, with a registry of the pocket model or of `entries`."""
    Path("job.yaml").write_text(yaml.safe_dump(dict(job)))
    Path("models.yaml").write_text(yaml.safe_dump({"models": entries or {"pocket": POCKET_ENTRY}}))
    return plan_job(read_any_job(Path("job.yaml")), Path("models.yaml"), Home(Path("store")))


def whats(found: JobPlan) -> str:
    return "; ".join(each.what for each in found.missing)


def test_a_policy_job_is_counted_and_nothing_is_written() -> None:
    found = plan(POLICY)
    assert found.missing == [] and found.content["could_start"] is True
    told = found.content
    assert told["kind"] == "policy"
    assert told["base"]["parameters"] == 4_066_048
    assert told["rollouts"]["groups_a_step"] == {"least": 12, "most": 12, "size": 8}
    assert told["rollouts"]["attempts"] == {"least": 480, "most": 480}
    assert told["rollouts"]["tasks"] == 400
    assert told["rollouts"]["completion_tokens"] == 480 * 10 * 16
    assert told["rollouts"]["prompt_tokens"] == 480 * 10 * (512 - 16)
    assert (told["held-out"]["evaluations"], told["held-out"]["attempts"]) == (2, 2 * 260)
    assert told["objective"] | {"dual": 0} == {
        "name": "grpo", "low": 0.2, "high": 0.2, "dual": 0, "truncate": 2.0, "kl": 0.0,
    }  # fmt: skip
    assert told["reward"] == {"advantage": "mean_std", "sql": "coalesce(score, 0)"}
    assert told["gpus"] == {"trainer": 0}
    assert told["reused"] == {"nothing": True}
    assert not Path("store").exists()


def test_dynamic_sampling_gives_a_range() -> None:
    """The lower bound is the number of rounds that contain the wanted groups, 3 for 12 at 5 per
    round; the upper bound is all 8."""
    rolled = {"groups": 12, "group_size": 4, "dynamic": {"round_groups": 5, "most_rounds": 8}}
    told = plan(POLICY | {"rollouts": rolled}).content["rollouts"]
    assert told["groups_a_step"] == {"least": 15, "most": 40, "size": 4}
    assert told["attempts"] == {"least": 5 * 15 * 4, "most": 5 * 40 * 4}


def test_evaluations_within_the_training() -> None:
    """Evaluations are after 0, 2, 4 and the fifth step, with 7 tasks of 3 trials each."""
    asked = {"split": "test", "every": 2, "limit": 7, "trials": 3}
    told = plan(POLICY | {"evaluation": asked}).content["held-out"]
    assert (told["evaluations"], told["attempts"]) == (4, 4 * 7 * 3)


def test_the_reference_takes_memory_only_with_a_kl() -> None:
    assert "reference" not in plan(POLICY).content["memory"]
    with_kl = plan(POLICY | {"objective_settings": {"kl": 1e-4}}).content["memory"]
    assert with_kl["reference"]["bytes"] == 4 * 4_066_048
    assert with_kl["total"]["bytes"] == sum(
        part["bytes"] for name, part in with_kl.items() if name != "total"
    )


def test_a_file_of_conversations_is_counted() -> None:
    """Ten rows at four per step and two epochs give three steps twice."""
    assert "no file said.jsonl" in whats(plan(FILE))
    Path("said.jsonl").write_text('{"messages": []}\n' * 10)
    found = plan(FILE)
    assert found.missing == []
    told = found.content
    assert (told["kind"], told["data"]["rows"], told["work"]["steps"]) == ("sft", 10, 6)
    Path("said.jsonl").write_text("")
    assert "no data: said.jsonl is empty" in whats(plan(FILE))


def test_what_a_guard_would_leave_out_is_told(new_catalog: NewCatalog) -> None:
    """The plan has the reason; a guard without an embedder is reported as not run."""
    row = {"task_set_id": "task_set:1", "task_id": "t", "split": "test", "status": "accepted"}
    with new_catalog(Home(Path("store"))) as catalog:
        commit(catalog, {"tasks": [row | {"question": "Who dug the lake of Ulm?"}]})
    said = [{"role": "user", "content": "Say: who dug the lake of Ulm?"}, {"role": "assistant"}]
    Path("said.jsonl").write_text(json.dumps({"messages": said}) + "\n")
    found = plan(FILE)
    assert found.content["data"]["left_out"] == {"question of a held-out task": 1}
    texts = {fact.name: fact.text for fact in found.facts if fact.part == "data"}
    assert texts["left_out"] == "1 x question of a held-out task"
    assert texts["guard_of_rewordings"] == "not run: no data.embedder"


def test_attempts_of_a_query_are_counted(new_catalog: NewCatalog) -> None:
    job = {"base": "pocket", "data": {"from": "select attempt_id from attempts"}}
    assert "no data: there is no store" in whats(plan(job))
    with new_catalog(Home(Path("store"))):
        assert "no data: the query names no attempt" in whats(plan(job))
        with pytest.raises(JobError, match=r"data\.from: .*nowhere"):
            plan({"base": "pocket", "data": {"from": "select attempt_id from nowhere"}})


@pytest.mark.parametrize(
    ("job", "entries", "said"),
    [
        (POLICY | {"base": "pockt"}, None, "no entry 'pockt' in models.yaml"),
        (POLICY, {"pocket": POCKET_ENTRY | {"checkpoint": "w/none"}}, "no checkpoint folder"),
        (POLICY, {"pocket": {"provider": "openai", "context_tokens": 99}}, "has no checkpoint"),
        (
            POLICY | {"reward": {"preference": {"accuracy": 1.0, "cost": 0.1}}},
            {"pocket": POCKET_ENTRY, "priceless": POCKET_ENTRY},
            "",  # prices.yaml has the pocket model's
        ),
        (
            POLICY | {"base": "priceless", "reward": {"preference": {"cost": 0.1}}},
            {"priceless": POCKET_ENTRY},
            "no prices of priceless, and reward.preference weighs cost",
        ),
        (
            POLICY | {"reward": {"process": {"judge": "gpt"}}},
            {"pocket": POCKET_ENTRY, "gpt": {"provider": "openai", "context_tokens": 1000}},
            "no key of gpt: OPENAI_API_KEY is not set",
        ),
        (POLICY | {"reward": {"process": {"judge": "gpt"}}}, None, "no entry 'gpt'"),
        (POLICY | {"gpus": 2}, None, "trainer: gpus: 2 GPUs asked for; this machine has none"),
        (
            POLICY | {"suite": SUITE | {"benchmark": "gsm8k", "data": {"source": "nowhere"}}},
            None,
            "no data: source: nowhere does not exist",
        ),
        (POLICY | {"lora": {"targets": ["c_attn"]}}, None, "no matrix 'c_attn' in pocket"),
        (POLICY | {"batch_tokens": 10**10}, None, "memory: about"),
    ],
)
def test_what_is_missing_is_named_with_what_to_do(
    job: Mapping[str, Any], entries: Mapping[str, Any] | None, said: str
) -> None:
    found = plan(job, entries)
    assert said in whats(found)
    assert bool(found.missing) == bool(said)
    assert all(each.todo for each in found.missing)


def test_weights_in_shards_are_weights(tmp_path: Path) -> None:
    """All shards are counted; without their index, or a shard, the weights count as missing."""
    folder = split_checkpoint(POCKET, tmp_path / "sharded", 3)
    sharded = {"pocket": POCKET_ENTRY | {"checkpoint": str(folder)}}
    found = plan(POLICY, sharded)
    assert found.missing == [] and found.content["base"]["parameters"] == 4_066_048
    (folder / "model-00002-of-00003.safetensors").unlink()
    (missing,) = plan(POLICY, sharded).missing
    assert "model-00002-of-00003.safetensors missing" in missing.what
    assert missing.todo == "fetch or copy them again"
    (folder / "model.safetensors.index.json").unlink()
    assert "copy the index too" in plan(POLICY, sharded).missing[0].todo


def test_a_model_of_the_hub_is_looked_for_in_its_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is named by an entry or as the base itself; a missing model is not downloaded, and
    its size follows from its name."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    entry = {"pocket": POCKET_ENTRY | {"checkpoint": "Qwen/Qwen3-8B@main"}}
    found = plan(POLICY, entry)
    assert whats(found).startswith("the Hub's cache has not all of Qwen/Qwen3-8B@main")
    assert "hf download Qwen/Qwen3-8B --revision main" in found.missing[0].todo
    assert found.content["base"]["parameters"] == 8_190_735_360, "as published"
    Path("said.jsonl").write_text('{"messages": []}\n' * 10)
    by_name = FILE | {"base": "Qwen/Qwen3-8B@main"}
    assert "Qwen/Qwen3-8B@main" in whats(plan(by_name))
    make_cache(tmp_path / "hub", "Qwen/Qwen3-8B", "a" * 40, POCKET)
    for job in (POLICY, by_name):
        told = plan(job, entry)
        assert told.missing == [] and told.content["base"]["parameters"] == 4_066_048
        assert told.content["base"]["folder"].endswith("snapshots/" + "a" * 40)


def test_no_models_environment_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUTTI_MODELS_PYTHON", "nowhere/python")
    assert whats(plan(POLICY)) == "no models environment"


def test_a_card_that_is_too_small_is_missing(tmp_path: Path) -> None:
    (tmp_path / "gpus.yaml").write_text("gpus: [{index: 0, memory_mb: 10}]")
    found = plan(POLICY)
    assert "gpu 0 has 10.5 MB" in whats(found)
    assert found.content["gpus"] == {"trainer": 1}


def test_a_checkpoint_of_the_same_settings_is_named(new_catalog: NewCatalog) -> None:
    """A checkpoint of another base or with another setting is not named; the job's name has no
    effect."""
    policy, fixed = PolicyJob.model_validate(POLICY), TrainJob.model_validate(FILE)
    base = weights_id(POCKET)
    cards = {
        "checkpoint:00": {"base": "checkpoint:other", "settings": policy.model_dump(mode="json")},
        "checkpoint:01": {"base": base, "settings": policy.model_dump(mode="json")},
        "checkpoint:02": {"base": base, "settings": settings_of(fixed), "data": {"file": "f"}},
    }
    with new_catalog(Home(Path("store"))) as catalog:
        for name, card in cards.items():
            catalog.enter_artifact(name, card)
    assert plan(POLICY | {"name": "again"}).content["reused"] == {"checkpoint": "checkpoint:01"}
    assert plan(POLICY | {"seed": 1}).content["reused"] == {"nothing": True}
    assert plan(FILE).content["reused"] == {"checkpoint": "checkpoint:02"}


def test_the_kind_of_a_job_is_read_from_its_file() -> None:
    Path("a.yaml").write_text(yaml.safe_dump(POLICY))
    assert isinstance(read_any_job(Path("a.yaml")), PolicyJob)
    Path("a.yaml").write_text(yaml.safe_dump(FILE))
    assert isinstance(read_any_job(Path("a.yaml")), TrainJob)
    Path("a.yaml").write_text("- base")
    with pytest.raises(JobError, match=r"a\.yaml"):
        read_any_job(Path("a.yaml"))
    with pytest.raises(JobError, match="no such job"):
        read_any_job(Path("b.yaml"))


def test_what_two_models_need_is_missing_once() -> None:
    plan = JobPlan("job", "policy")
    for _ in range(2):
        plan.lacks("no checkpoint of a", "fetch it")
    assert [each.what for each in plan.missing] == ["no checkpoint of a"]
