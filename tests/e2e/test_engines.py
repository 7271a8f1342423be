"""Tests of real engines: kept ones serve later runs, dead ones are restarted, and shards are one
model."""

import json
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import PATIENCE_S, Store
from tests.e2e.test_crashes import kill_engine, wait_for_attempts
from tests.serving.weights.checkpoints import split_checkpoint
from tutti import storage
from tutti.tasks.platform.project import POCKET
from tutti.tasks.serving.engines import Engine
from tutti.tasks.serving.registry import Model

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(4 * PATIENCE_S)]

SUITE = """
name: {name}
policies: [passthrough]
concurrency: [2]
tasks: {{families: [module, parameter], train_per_family: 0, test_per_family: {n}}}
execution: {{restart_pause_s: 1}}
"""


def test_a_kept_engine_serves_two_runs_and_its_death_costs_one_start(
    store: Store, tmp_path: Path
) -> None:
    """Two runs reuse the engine by its id; when it is killed in the second run, that run starts its
    own."""
    small, large = tmp_path / "small.yaml", tmp_path / "large.yaml"
    small.write_text(SUITE.format(name="small", n=4))
    large.write_text(SUITE.format(name="large", n=40))
    keeper = store.start("serve", "pocket", "--keep", "10m", output=tmp_path / "keeper.log")
    try:
        _wait_for_text(tmp_path / "keeper.log", "answers at")
        done = store.run("sweep", "run", str(small))
        assert done.returncode == 0, done.stderr[-3000:]
        assert len(_engine_logs(store)) == 1, "the run has used the kept engine"
        attempts = store.sql("select count(*) n from attempts")[0]["n"]
        run = store.start("sweep", "run", str(large), output=tmp_path / "large.log")
        wait_for_attempts(store, attempts + 6)
        kill_engine(store)
        assert run.wait(timeout=PATIENCE_S) == 0, (tmp_path / "large.log").read_text()[-3000:]
        assert keeper.wait(timeout=PATIENCE_S) == 5, "its engine has died"
    finally:
        keeper.send_signal(signal.SIGTERM)
        keeper.wait(timeout=PATIENCE_S)
    said = " ".join((tmp_path / "large.log").read_text().split())  # lines break anywhere
    assert "start 1 of 1 anew" in said
    assert len(_engine_logs(store)) == 2
    assert store.sql("select distinct status from cells") == [{"status": "finished"}]
    assert store.sql("select count(distinct engine_id) n from attempts") == [{"n": 1}]
    restarts = store.sql("select value from server_metrics where name = 'engine_restarts'")
    assert restarts == [{"value": 1.0}]
    rows = store.sql(
        "select sample_id, count(*) filter (status not in ('infra_error', 'cancelled')) counted "
        "from attempts group by all"
    )
    assert all(row["counted"] == 1 for row in rows)


def test_a_checkpoint_in_shards_answers_as_the_whole_one(tmp_path: Path) -> None:
    """Token ids and log probabilities are equal at temperature 0; the ids of the weights differ."""
    shards = split_checkpoint(POCKET, tmp_path / "shards", 3)
    answers = []
    with storage.open_catalog(storage.Home(tmp_path / "home")) as catalog:
        for folder in (POCKET, shards):
            engine = Engine("pocket", _entry(folder), catalog)
            with engine as address:
                answers.append(_answer(address.url))
    assert answers[0] == answers[1]
    assert len(answers[0]) == 16


def _entry(folder: Path) -> Model:
    return Model.model_validate(
        {
            "provider": "vllm",
            "checkpoint": folder,
            "context_tokens": 512,
            "engine": {"kv_tokens": 1024, "max_sequences": 4, "tool_parser": "hermes"},
        }
    )


def _answer(url: str) -> list[tuple[str, float]]:
    """Return the tokens of a response, each with its log probability."""
    body: dict[str, Any] = {"model": "pocket", "max_tokens": 16, "temperature": 0, "logprobs": True}
    body |= {"ignore_eos": True, "return_tokens_as_token_ids": True}
    body["messages"] = [{"role": "user", "content": "Which module has the function dumps?"}]
    data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/chat/completions", data, headers)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        choice = json.load(answer)["choices"][0]
    return [(each["token"], each["logprob"]) for each in choice["logprobs"]["content"]]


def _engine_logs(store: Store) -> list[Path]:
    return list(storage.Home(store.root).logs.glob("vllm-*.log"))


def _wait_for_text(file: Path, wanted: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if file.exists() and wanted in file.read_text():
            return
        time.sleep(0.3)
    raise AssertionError(f"no {wanted!r} after {PATIENCE_S:.0f} s: {file.read_text()}")
