"""Tests of `tutti train sft` with the pocket model: a training that is killed in the middle resumes
without duplicates."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.e2e.conftest import TUTTI, Store
from tests.serving.weights.checkpoints import make_cache, split_checkpoint
from tutti.storage import open_catalog
from tutti.storage.base.home import Home
from tutti.storage.read.lineage_graph import walk
from tutti.tasks.platform.project import POCKET, PROJECT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
STEPS, KILLED_AT, PATIENCE_S = 10, 4, 120.0
JOB = f"""
name: sums
base: pocket
data: {{file: FILE, held_out_share: 0.2}}
optimizer: {{learning_rate: 1.0e-3}}
batch: {{sequences: 16, tokens: 1024}}
steps: {STEPS}
save_every_s: 0.001
"""


def sums(count: int) -> str:
    """Return conversations about sums, one per line."""
    rng, lines = Random(0), []
    for _ in range(count):
        one, other = rng.randint(10, 99), rng.randint(10, 99)
        said = [
            {"role": "user", "content": f"What is {one} plus {other}?"},
            {"role": "assistant", "content": str(one + other)},
        ]
        lines.append(json.dumps({"messages": said}) + "\n")
    return "".join(lines)


def reported(log: Path) -> dict[int, dict[str, Any]]:
    """Return the steps in a trainer's log, each once."""
    lines = [line for line in log.read_text().splitlines() if line.startswith('{"step"')]
    rows = [json.loads(line) for line in lines if line.endswith("}")]
    found = {row["step"]: row for row in rows}
    assert len(found) == len(rows), "a step is told once"
    return found


def kill_in_the_middle(store: Store, words: list[str]) -> dict[int, dict[str, Any]]:
    """Start a training, kill its process group at a step, and return the reported steps."""
    run = subprocess.Popen(
        [*TUTTI, *words],
        cwd=PROJECT,
        env=store.environment(),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + PATIENCE_S
    try:
        while not (logs := list(store.root.glob("logs/training-*.log"))) or (
            f'"step": {KILLED_AT},' not in logs[0].read_text()
        ):
            assert run.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    assert not store.wait_until_gone(), "the trainer ends with its owner"
    return reported(logs[0])


def test_a_killed_training_goes_on_to_one_checkpoint(store: Store, tmp_path: Path) -> None:
    """The card, steps, artifact and lineage are correct; a repeated request reuses the
    checkpoint."""
    (tmp_path / "said.jsonl").write_text(sums(80))
    job = tmp_path / "job.yaml"
    job.write_text(JOB.replace("FILE", str(tmp_path / "said.jsonl")))
    words = ["train", "sft", str(job), "--json"]
    before = kill_in_the_middle(store, words)
    assert list(store.root.glob("artifacts/checkpoint-*.state")), "something to go on from"
    assert not store.sql("select * from train_steps")
    done = store.run(*words)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout)
    folder, made = Path(result["folder"]), result["checkpoint"]

    (log,) = set(store.root.glob("logs/training-*.log")) - {min(_logs(store), key=_age)}
    after = reported(log)
    assert list(after) == list(range(1, STEPS + 1))
    same = [n for n, row in before.items() if row["seconds"] == after[n]["seconds"]]
    assert len(same) >= KILLED_AT - 1, "what was saved was not trained again"
    assert [after[n]["loss"] for n in same] == [before[n]["loss"] for n in same]

    steps = store.sql("select checkpoint_id, step, loss, tokens from train_steps order by step")
    assert [row["step"] for row in steps] == list(range(1, STEPS + 1))
    assert {row["checkpoint_id"] for row in steps} == {made}
    assert [row["loss"] for row in steps] == [row["loss"] for row in after.values()]
    _check_files(folder, result["card"], store)
    _check_lineage(Home(store.root), made, result["card"])
    again = json.loads(store.run(*words).stdout)
    assert again["reused"] and again["checkpoint"] == made
    assert len(_logs(store)) == 2, "no trainer was started"


def _logs(store: Store) -> list[Path]:
    return list(store.root.glob("logs/training-*.log"))


def _age(path: Path) -> int:
    return path.stat().st_mtime_ns


def _check_files(folder: Path, card: dict[str, Any], store: Store) -> None:
    """Check that there are only the checkpoint, the best one and the card, and no remains of the
    kill."""
    assert json.loads((folder / "card.json").read_text()) == card
    for each in (folder, folder / "best"):
        assert (each / "model.safetensors").is_file() and (each / "tokenizer.json").is_file()
    assert (card["name"], card["steps"], card["objective"]) == ("sums", STEPS, {"name": "sft"})
    assert card["data"]["sequences"] == 80 and card["best_held_out"] > 0
    assert card["code_version"] and card["machine"]["cores"]
    left = {path.suffix for path in (store.root / "artifacts").iterdir()}
    assert left == {""}, "no state and no unfinished folder"


def _check_lineage(home: Home, made: str, card: dict[str, Any]) -> None:
    """Check the lineage from the base and the set to the served checkpoint."""
    with open_catalog(home) as catalog:
        assert catalog.parents(made) == sorted([card["base"], card["training_set"]])
        served = [each for each in catalog.children(made) if each.startswith("checkpoint:")]
        assert len(served) in (1, 2), "the last, and the best where it is another"
        found = walk(catalog, served[0], "up").nodes
        assert {made, card["base"], card["training_set"]} <= found.keys()
        assert all(node.entered for node in found.values())


def test_a_base_in_shards_from_the_hubs_cache_trains_as_the_whole_one(
    store: Store, tmp_path: Path
) -> None:
    """The base is named by its commit without a Hub; all losses and the weights are equal."""
    (tmp_path / "said.jsonl").write_text(sums(40))
    shards = split_checkpoint(POCKET, tmp_path / "shards", 3)
    make_cache(tmp_path / "hub", "org/pocket", "a" * 40, shards)
    job = tmp_path / "job.yaml"
    text = JOB.replace("FILE", str(tmp_path / "said.jsonl")).replace(f"steps: {STEPS}", "steps: 3")
    offline = {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    made = []
    for base in ("pocket", f"org/pocket@{'a' * 40}"):
        job.write_text(text.replace("base: pocket", f"base: {base}"))
        done = store.run("train", "sft", str(job), "--json", **offline)
        assert done.returncode == 0, done.stderr[-3000:]
        made.append(json.loads(done.stdout))
    assert made[0]["checkpoint"] != made[1]["checkpoint"], "the bases' ids are of their files"
    losses = [
        [row["loss"] for row in store.sql(f"select * from train_steps where checkpoint_id = '{i}'")]
        for i in (each["checkpoint"] for each in made)
    ]
    assert losses[0] == losses[1] and len(losses[0]) == 3
    weights = [(Path(each["folder"]) / "model.safetensors").read_bytes() for each in made]
    assert weights[0] == weights[1]
