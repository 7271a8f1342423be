"""Training, measured: ``make bench-train`` (about half an hour; ``--seeds 0`` leaves GRPO out).

`sft_tokens_per_s` and `vs_trl_ratio`: our trainer and TRL's SFTTrainer in turn, same model, rows,
order and batch. `max_abs_diff_vs_trl`: losses and gradients of five objectives on random batches.
`grpo_gain_points`: held-out accuracy after less before, paired by task, the lower end of the 95 %
interval, worst of the seeds; `grpo_rollouts_per_s`: attempts of steps through the gateway.
"""

import argparse
import json
import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from bench.report import Report, Target
from tutti.storage import Home, query
from tutti.tasks.platform.project import POCKET, PROJECT, models_python_path

JOB: dict[str, Any] = {
    "name": "bench",
    "base": "pocket",
    "suite": {
        "benchmark": "stdlib",
        "tasks": {"families": ["last_parameter"], "train_per_family": 600, "test_per_family": 330},
        "data": {"split": "train"},
        "policies": ["passthrough"],
        "concurrency": [32],
        "sampling": {"temperature": 1.0},
    },
    "rollouts": {"groups": 32, "group_size": 8, "staleness": 1},
    "objective": "grpo",
    "objective_settings": {"high": 0.28},
    "optimizer": {
        "learning_rate": 2e-4,
        "betas": [0.9, 0.99],
        "schedule": "constant",
        "warmup_share": 0.0,
    },
    "steps": 60,
    "minutes": 7,
}
ENTRY = {"provider": "vllm", "checkpoint": str(POCKET), "context_tokens": 512, "tools": True}
ENGINE = {"kv_blocks": 128, "max_sequences": 32, "max_batched_tokens": 2048}


def beside_trl(repeats: int) -> dict[str, Any]:
    """What `bench.train.beside_trl` measures."""
    command = [str(models_python_path()), "-m", "bench.train.beside_trl"]
    command += ["--repeats", str(repeats)]
    environment = os.environ | {"PYTHONPATH": str(PROJECT), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def grpo(seed: int, permuted: bool = False) -> tuple[dict[str, Any], float]:
    """One job of a seed: (its card, median attempts per second of its steps)."""
    with TemporaryDirectory() as folder:
        home, models = Path(folder) / "home", Path(folder) / "models.yaml"
        models.write_text(yaml.safe_dump({"models": {"pocket": ENTRY | {"engine": ENGINE}}}))
        job = JOB | {"seed": seed, "reward": {"permuted": permuted}}
        if permuted:  # a symmetric clip: a higher upper one raises entropy by itself
            job |= {"objective_settings": {}}
        file = Path(folder) / "job.yaml"
        file.write_text(yaml.safe_dump(job))
        command = [str(PROJECT / ".venv" / "bin" / "tutti"), "train", "grpo", str(file)]
        command += ["--models", str(models), "--json"]
        environment = os.environ | {"TUTTI_HOME": str(home)}
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        (row,) = query("select median(rollouts_per_s) as rate from train_steps", Home(home))
        return json.loads(done.stdout)["card"], row["rate"]


def main() -> None:
    """Run the bench; see the module's text."""
    parser = argparse.ArgumentParser(description="Benchmark training.")
    parser.add_argument("--repeats", type=int, default=3, help="of the comparison with TRL")
    parser.add_argument("--seeds", type=int, default=3, help="GRPO jobs, of seven minutes each")
    given = parser.parse_args()
    report = Report("train", given.repeats)
    found = beside_trl(given.repeats)
    report.figure("sft_tokens_per_s", found["ours"])
    report.peer("trl", "sft_tokens_per_s", found["trl"])
    ratios = [a / b for a, b in zip(found["ours"], found["trl"], strict=True)]
    report.figure("vs_trl_ratio", ratios, Target(1.5, least=True))
    report.figure("max_abs_diff_vs_trl", [found["difference"]], Target(1e-5))
    jobs = [grpo(seed) for seed in range(given.seeds)]
    if jobs:
        lows = [100 * card["paired"]["ci_low"] for card, _ in jobs]
        report.figure("grpo_gain_points", [min(lows)], Target(25.0, least=True))
        gains = ", ".join(
            f"{100 * card['paired']['difference']:.1f} (n = {card['paired']['n']})"
            for card, _ in jobs
        )
        report.note(f"grpo: gains of {given.seeds} seeds in points: {gains}")
        report.figure("grpo_rollouts_per_s", [rate for _, rate in jobs])
        control, _ = grpo(0, permuted=True)
        report.note(f"control: {100 * control['paired']['difference']:.1f} points")
    report.show()


if __name__ == "__main__":
    main()
