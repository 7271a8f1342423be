"""Tests of verl's configuration of a policy job: golden values, its data, its reward, its own
schema."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

import pyarrow.parquet as pq

from tests.training.backends.policy_jobs import job, written
from tests.training.trainer.pocket import POCKET
from tutti.tasks.training.backends.base import BackendRefused
from tutti.tasks.training.backends.configure import backend_python

ACTOR = "actor_rollout_ref.actor."
ROLLOUT = "actor_rollout_ref.rollout."


def settings(out: Path) -> dict[str, Any]:
    lines = (out / "overrides.txt").read_text().splitlines()
    return {name: json.loads(value) for name, value in (line.split("=", 1) for line in lines)}


@pytest.mark.usefixtures("unchecked")
def test_golden_grpo(tmp_path: Path) -> None:
    out = tmp_path / "out"
    given = job(tmp_path, gpus=4, backend_settings={"trainer": {"nnodes": 2}})
    made = written(given, "verl", out)
    assert made["notes"] == {"tasks to train on": 6, "tasks held out": 3}
    assert made["checked"].startswith("names of settings only, by those of verl 0.9.1")
    assert settings(out) == {
        "algorithm.adv_estimator": "grpo", "algorithm.use_kl_in_reward": False,
        "algorithm.norm_adv_by_std_in_grpo": True,
        "algorithm.rollout_correction.rollout_is": "token",
        "algorithm.rollout_correction.rollout_is_threshold": 2.0,
        "actor_rollout_ref.model.path": str(POCKET),
        "actor_rollout_ref.model.use_remove_padding": True,
        ACTOR + "policy_loss.loss_mode": "vanilla", ACTOR + "loss_agg_mode": "seq-mean-token-mean",
        ACTOR + "clip_ratio_low": 0.2, ACTOR + "clip_ratio_high": 0.2,
        ACTOR + "clip_ratio_c": 1e6, ACTOR + "entropy_coeff": 0, ACTOR + "use_kl_loss": False,
        ACTOR + "kl_loss_coef": 0.0, ACTOR + "kl_loss_type": "low_var_kl",
        ACTOR + "ppo_mini_batch_size": 4, ACTOR + "ppo_epochs": 1, ACTOR + "use_dynamic_bsz": True,
        ACTOR + "ppo_max_token_len_per_gpu": 1024, ACTOR + "optim.lr": 1e-6,
        ACTOR + "optim.weight_decay": 0.0, ACTOR + "optim.betas": [0.9, 0.99],
        ACTOR + "optim.clip_grad": 1.0, ACTOR + "optim.lr_warmup_steps": 0,
        ACTOR + "optim.lr_scheduler_type": "constant", ACTOR + "optim.min_lr_ratio": 0.0,
        ACTOR + "fsdp_config.dtype": "bfloat16",
        ACTOR + "checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
        "actor_rollout_ref.ref.log_prob_use_dynamic_bsz": True, ROLLOUT + "name": "vllm",
        ROLLOUT + "n": 8, ROLLOUT + "temperature": 1.0, ROLLOUT + "dtype": "bfloat16",
        ROLLOUT + "tensor_model_parallel_size": 1, ROLLOUT + "calculate_log_probs": True,
        ROLLOUT + "log_prob_use_dynamic_bsz": True, ROLLOUT + "seed": 0,
        ROLLOUT + "val_kwargs.n": 1, ROLLOUT + "val_kwargs.do_sample": False,
        ROLLOUT + "val_kwargs.temperature": 0,
        "data.train_files": str(out / "data" / "train.parquet"),
        "data.val_files": str(out / "data" / "held_out.parquet"),
        "data.max_prompt_length": settings(out)["data.max_prompt_length"],
        "data.max_response_length": 64, "data.train_batch_size": 4, "data.seed": 0,
        "data.shuffle": True, "data.truncation": "error",
        "reward.custom_reward_function.path": str(out / "reward.py"),
        "reward.custom_reward_function.name": "compute_score",
        "trainer.project_name": "tutti", "trainer.experiment_name": "sums",
        "trainer.logger": ["console", "file"], "trainer.total_training_steps": 10,
        "trainer.total_epochs": 1_000_000, "trainer.nnodes": 2, "trainer.test_freq": 10,
        "trainer.val_before_train": True, "trainer.save_freq": 10,
        "trainer.default_local_dir": str(out / "output"), "trainer.v1.trainer_mode": "sync",
    }  # fmt: skip
    launch = (out / "launch.sh").read_text()
    assert 'trainer.n_gpus_per_node="${GPUS:-4}"' in launch and f".{out.name}-" not in launch


@pytest.mark.usefixtures("unchecked")
def test_what_dapo_adds(tmp_path: Path) -> None:
    """The settings are token mean, clip higher, dynamic sampling, the overlong buffer, and a step
    of staleness."""
    rollouts = {"groups": 4, "group_size": 8, "staleness": 1, "dynamic": {"round_groups": 6}}
    reward: dict[str, Any] = {"sql": "if(coalesce(score, 0) = 1, 1, -1)"}
    reward |= {"overlong": {"most_tokens": 64, "buffer_tokens": 16}, "advantage": "centred"}
    more = {"rollouts": rollouts, "reward": reward, "lora": {"rank": 8}, "objective": "dapo"}
    more["objective_settings"] = {"kl": 0.01, "dual": 3.0}
    written(job(tmp_path, **more), "verl", tmp_path / "out")
    found = settings(tmp_path / "out")
    assert {
        ACTOR + "loss_agg_mode": "token-mean", ACTOR + "clip_ratio_high": 0.28,
        ACTOR + "clip_ratio_c": 3.0, ACTOR + "use_kl_loss": True, ACTOR + "kl_loss_coef": 0.01,
        "algorithm.norm_adv_by_std_in_grpo": False, "algorithm.filter_groups.enable": True,
        "algorithm.filter_groups.max_inflight_gen_batches": 2,
        "reward.reward_manager.name": "dapo", "+reward.reward_kwargs.max_resp_len": 64,
        "+reward.reward_kwargs.overlong_buffer_cfg.len": 16,
        "actor_rollout_ref.model.lora_rank": 8, "actor_rollout_ref.model.lora_alpha": 16,
        "trainer.v1.trainer_mode": "colocate_async",
    }.items() <= found.items()  # fmt: skip
    reward_of = runpy.run_path(str(tmp_path / "out" / "reward.py"))["compute_score"]
    truth = pq.read_table(tmp_path / "out" / "data" / "train.parquet").to_pylist()[0]
    ground = truth["reward_model"]["ground_truth"]
    assert reward_of("sums", "It is 1.", ground)["score"] == 1.0
    assert reward_of("sums", "It is 2.", ground)["score"] == -1.0


@pytest.mark.usefixtures("unchecked")
def test_its_data_and_reward_are_the_platform_s(tmp_path: Path) -> None:
    """A correct answer earns 1; a target of another scorer version is counted and not used."""
    written(job(tmp_path), "verl", tmp_path / "out")
    rows = pq.read_table(tmp_path / "out" / "data" / "held_out.parquet").to_pylist()
    assert len(rows) == 3 and rows[0]["data_source"] == "held_out.jsonl"
    assert "100 + 1?" in rows[0]["prompt"][-1]["content"]
    assert rows[0]["ability"] == "numeric" and rows[0]["extra_info"]["split"] == "held_out"
    assert rows[0]["reward_model"]["style"] == "rule"
    truth = rows[0]["reward_model"]["ground_truth"]
    reward_of = runpy.run_path(str(tmp_path / "out" / "reward.py"))["compute_score"]
    right = reward_of("sums", "so it is 101", truth, extra_info={})
    assert right == {"score": 1.0, "acc": 1.0, "scorer_failed": 0.0}
    assert reward_of("sums", "100", truth)["score"] == reward_of("sums", "", truth)["score"] == 0.0
    old = json.dumps(json.loads(truth) | {"version": "0"})
    assert reward_of("sums", "101", old) == {"score": 0.0, "acc": 0.0, "scorer_failed": 1.0}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"objective": "reinforce"}, "objective: reinforce; verl has grpo, dapo"),
        ({"reward": {"overlong": {"most_tokens": 32, "buffer_tokens": 8}}}, "overlong.most_tokens"),
        ({"optimizer": {"schedule": "linear"}}, "optimizer.schedule: verl has cosine"),
        ({"backend_settings": {"trainer": {"nnode": 2}}}, "trainer.nnode: .* trainer.nnodes?"),
    ],
)
def test_what_it_cannot_do_is_refused(fields: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(BackendRefused, match=said):
        written(job(tmp_path, **fields), "verl", tmp_path / "out")
    assert not any(each.name.startswith(("out", ".out")) for each in tmp_path.iterdir())


@pytest.mark.slow
def test_its_own_schema_takes_ours_and_refuses_a_typo(tmp_path: Path) -> None:
    """Hydra checks them against verl's own configuration."""
    if backend_python("verl") is None:
        pytest.skip("no environment of verl: make backends, or TUTTI_VERL_PYTHON")
    reward = {"overlong": {"most_tokens": 64, "buffer_tokens": 16}}
    made = written(job(tmp_path, lora={"rank": 8}, reward=reward), "verl", tmp_path / "out")
    assert made["checked"].startswith("verl's own schema")
    wrong = job(tmp_path, backend_settings={"trainer": {"nnode": 2}})
    with pytest.raises(BackendRefused, match=r"verl: its schema refuses this: .*nnode"):
        written(wrong, "verl", tmp_path / "no")
    assert not (tmp_path / "no").exists()
