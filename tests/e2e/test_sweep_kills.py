"""Tests of random kill -9 during a small sweep on the real vLLM: the rows equal those of an
undisturbed run, each once.

The driver starts `tutti sweep run`, kills it (sometimes its gateway, or the engine) at a seeded
random moment, starts it again, and so on, and then lets it finish. `TUTTI_SWEEP_KILLS=50` makes 50
kills in a proportionally larger sweep; `TUTTI_SWEEP_KILLS_SEED` draws other moments.
"""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.e2e.conftest import Store
from tutti.storage import Home, open_catalog
from tutti.storage.maintenance import verify
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.serving.engines.engine import Engine
from tutti.tasks.serving.registry import pick_models

KILLS = int(os.environ.get("TUTTI_SWEEP_KILLS", "8"))
SEED = int(os.environ.get("TUTTI_SWEEP_KILLS_SEED", "1"))
# All in one process: they share one engine and one undisturbed sweep.
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.xdist_group("sweep_kills"),
    pytest.mark.timeout(900 + 60 * KILLS),
]

PATIENCE_S = 240.0
RUNNING = "running"
COUNTS = ("ok", "limit", "model_error", "scorer_error")
FULL = KILLS >= 50
FAMILIES = "{families: [module, parameter, expression], train_per_family: 0, test_per_family: %d}"
SUITE = f"""
name: kills
policies: [passthrough, {{name: cap, limit: 2}}]
concurrency: {[2, 4] if FULL else [4]}
tasks: {FAMILIES % (70 if FULL else 30)}
"""
OWN_ENGINE = f"""
name: owned
policies: [passthrough]
concurrency: [4]
execution: {{restarts: 0}}
tasks: {FAMILIES % 25}
"""
MODELS = """
models:
  pocket:
    provider: vllm
    endpoint: {url}/v1
    context_tokens: 512
    tools: true
"""

COUNTED = "(select * from attempts where status not in ('infra_error', 'cancelled')) a"
SAME = {
    "attempts": "select a.sample_id, task_id, trial, policy, concurrency, status, stop_reason, "
    "error_type, steps, calls, tool_calls, prompt_tokens, completion_tokens, answer, score, "
    f"correct from {COUNTED}",
    # Ids of calls are drawn; what was said, and by whom, is not.
    "messages": "select a.sample_id, position, role, content, reasoning, m.name, list_transform("
    "m.tool_calls, lambda c: c.name || c.arguments) said, m.call_id is null uncalled "
    f"from messages m join {COUNTED} using (attempt_id)",
    "calls": "select a.sample_id, c.step, c.role, c.model, c.status, c.finish_reason, "
    "c.prompt_tokens, c.completion_tokens from calls c join messages m using (call_id, attempt_id) "
    f"join {COUNTED} using (attempt_id)",
    "tool_runs": "select a.sample_id, step, name, arguments, result, t.status, t.error_type "
    f"from tool_runs t join {COUNTED} using (attempt_id)",
    "retrievals": "select a.sample_id, step, index_id, query, doc_ids, scores "
    f"from retrievals r join {COUNTED} using (attempt_id)",
    "scores": "select a.sample_id, scorer, scorer_version, s.value, s.correct, s.answer, detail "
    f"from scores s join {COUNTED} using (attempt_id)",
    "cells": "select cell_id, policy, concurrency, repeat, samples, status from cells",
}


@dataclass
class Disturbed:
    """A sweep that is killed repeatedly."""

    store: Store
    suite: Path
    models: Path
    output: Path
    rng: Random
    kills: Counter[str] = field(default_factory=Counter)
    lost: list[set[str]] = field(default_factory=list)
    """Attempts that each kill found in flight."""
    finished: set[str] = field(default_factory=set)
    """Attempts seen in the store."""
    counted: int = 0
    """Of them those that count."""

    @contextlib.contextmanager
    def running(self) -> Iterator["subprocess.Popen[bytes]"]:
        """Run the suite until the block ends at the latest."""
        command = ("sweep", "run", str(self.suite), "--models", str(self.models))
        run = self.store.start(*command, output=self.output)
        try:
            yield run
        finally:
            run.kill()
            run.wait()

    def kill_once(self, victim: str) -> None:
        """Start a run, kill `victim` at a random moment, and check the invariants."""
        early = victim == "run" and self.rng.random() < 0.2
        with self.running() as run:
            if early:
                time.sleep(self.rng.uniform(0.0, 6.0))
            else:
                # By what is done, so that a slow machine goes forward too; then at any moment.
                self._wait_for(run, self.counted + self.rng.randint(0, 8))
                time.sleep(self.rng.uniform(0.0, 1.0))
            assert run.poll() is None, f"it ended by itself: {self.output.read_text()[-2000:]}"
            self._strike(victim, run)
        self.kills[f"{victim} early" if early else victim] += 1
        assert not self.store.wait_until_gone(), "children end with their owner"
        self._nothing_finished_is_lost()

    def _wait_for(self, run: "subprocess.Popen[bytes]", wanted: int) -> None:
        """Wait until `wanted` attempts count and others of this run, not of an earlier one, are in
        flight."""
        deadline, left = time.monotonic() + PATIENCE_S, set[str]().union(*self.lost)
        while run.poll() is None and time.monotonic() < deadline:
            states = self._states()
            running = {attempt for attempt, status in states.items() if status == RUNNING}
            if sum(each in COUNTS for each in states.values()) >= wanted and running - left:
                return
            time.sleep(0.02)

    def _strike(self, victim: str, run: "subprocess.Popen[bytes]") -> None:
        if victim == "run":
            run.kill()
            run.wait()
            return
        name = {"gateway": "tutti.tasks.serving.gateway", "engine": "vllm.entrypoints"}[victim]
        found = self.store.processes().items()
        pids = [pid for pid, told in found if name in told and "supervise.py" not in told]
        assert pids, f"no {victim} runs"
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        assert run.wait(timeout=PATIENCE_S) == 1, "it says so, and ends"
        assert "Traceback" not in self.output.read_text()

    def finish(self) -> None:
        """Run the sweep to its end."""
        with self.running() as run:
            assert run.wait(timeout=3 * PATIENCE_S) == 0, self.output.read_text()[-3000:]
        self._nothing_finished_is_lost()

    def _states(self) -> dict[str, str]:
        """Return the status of each attempt in the catalog."""
        file = self.store.root / "catalog.db"
        connection = sqlite3.connect(f"file:{file}?mode=rw", uri=True, timeout=60)
        try:
            sql = f"select attempt_id, coalesce(status, '{RUNNING}') from attempt_states"
            return dict(connection.execute(sql).fetchall())
        finally:
            connection.close()

    def _nothing_finished_is_lost(self) -> None:
        rows = self.store.sql("select attempt_id, sample_id, status from attempts")
        ids = [row["attempt_id"] for row in rows]
        assert len(set(ids)) == len(ids), "no attempt is there twice"
        assert self.finished <= set(ids), "what was seen before is still there"
        self.finished = set(ids)
        counted = Counter(
            row["sample_id"] for row in rows if row["status"] not in ("infra_error", "cancelled")
        )
        assert set(counted.values()) <= {1}, "no sample counts twice"
        self.counted = len(counted)
        states = self._states()
        running = {attempt for attempt, status in states.items() if status == RUNNING}
        assert {key: status for key, status in states.items() if key not in running} == {
            row["attempt_id"]: row["status"] for row in rows
        }, "states and rows agree"
        self.lost.append(running - set().union(*self.lost))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of a vLLM that serves the pocket model and is never killed."""
    model = pick_models(PROJECT / "deployments" / "models.yaml", ("pocket",))["pocket"]
    with open_catalog(Home(tmp_path_factory.mktemp("engine"))) as catalog:
        with Engine("pocket", model, catalog) as address:
            yield address.url


@pytest.fixture(scope="module")
def undisturbed(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Run the same sweep once to its end; its folder also holds suite and models."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "suite.yaml").write_text(SUITE)
    (folder / "models.yaml").write_text(MODELS.format(url=engine))
    store = Store(folder / "home")
    made = store.run("synth", *_synth(SUITE))
    assert made.returncode == 0, made.stderr[-2000:]
    shutil.copytree(store.root, folder / "tasks made")
    done = store.run("sweep", "run", str(folder / "suite.yaml"), "--models", _models(folder))
    assert done.returncode == 0, done.stderr[-3000:]
    assert not store.wait_until_gone()
    return store


def test_random_kills_leave_the_rows_of_an_undisturbed_run(
    undisturbed: Store, tmp_path: Path
) -> None:
    """Runs and gateways are killed at random moments; no row is lost, duplicated or different."""
    folder = undisturbed.root.parent
    shutil.copytree(folder / "tasks made", tmp_path / "home")
    store, rng = Store(tmp_path / "home"), Random(SEED)
    paths = (folder / "suite.yaml", folder / "models.yaml", tmp_path / "output.log")
    sweep = Disturbed(store, *paths, rng)
    # A run without its gateway gives up only after a while, so fewer of those.
    victims = ["gateway" if nth % 8 == 4 else "run" for nth in range(KILLS)]
    began = time.monotonic()
    for victim in victims:
        sweep.kill_once(victim)
    sweep.finish()
    _show(sweep, time.monotonic() - began)
    for table, sql in SAME.items():
        assert _rows(store, sql) == _rows(undisturbed, sql), table
    _all_accounted_for(sweep)


@pytest.mark.skipif(not FULL, reason="test_crashes kills an engine; here with TUTTI_SWEEP_KILLS=50")
def test_kills_of_runs_that_own_their_engine(tmp_path: Path) -> None:
    """The run is killed, its vLLM is killed, and the run is killed while vLLM starts; each time all
    processes end."""
    (tmp_path / "suite.yaml").write_text(OWN_ENGINE)
    store = Store(tmp_path / "home")
    made = store.run("synth", *_synth(OWN_ENGINE))
    assert made.returncode == 0, made.stderr[-2000:]
    models = PROJECT / "deployments" / "models.yaml"
    paths = (tmp_path / "suite.yaml", models, tmp_path / "output.log")
    sweep = Disturbed(store, *paths, Random(SEED + 1))
    began = time.monotonic()
    for victim in ("run", "engine", "gateway"):
        sweep.kill_once(victim)
    sweep.finish()
    _show(sweep, time.monotonic() - began)
    _all_accounted_for(sweep)


def _all_accounted_for(sweep: Disturbed) -> None:
    """Check that every sample counts once and every other attempt is recorded with its number and
    reason."""
    store = sweep.store
    samples = store.sql("select sum(samples)::int n from cells")[0]["n"]
    assert store.sql(f"select count(*) n, count(distinct sample_id) of from {COUNTED}") == [
        {"n": samples, "of": samples}
    ]
    tries = store.sql(
        "select sample_id, list(attempt order by attempt) tries, max(attempt) last, "
        "max(attempt) filter (status not in ('infra_error', 'cancelled')) counted "
        "from attempts group by all"
    )
    assert all(row["tries"] == list(range(1, row["last"] + 1)) for row in tries)
    assert all(row["counted"] == row["last"] for row in tries), "the one that counts ends it"
    lost = store.sql("select attempt_id from attempts where stop_reason = 'worker_lost'")
    assert {row["attempt_id"] for row in lost} == set().union(*sweep.lost)
    assert {row["status"] for row in store.sql("select status from cells")} == {"finished"}
    with open_catalog(Home(store.root)) as catalog:
        kinds = {found.kind for found in verify(catalog, min_age_s=0).findings}
    assert kinds <= {"orphan"}, "at most files of commits that were cut off"


def _show(sweep: Disturbed, seconds: float) -> None:
    kills = ", ".join(f"{n} x {what}" for what, n in sorted(sweep.kills.items()))
    lost = [len(each) for each in sweep.lost]
    print(
        f"\nkills: {kills}; {seconds:.0f} s; {sum(lost)} attempts lost in flight, at most "
        f"{max(lost)} at a kill; {len(sweep.finished)} attempts on record"
    )


def _rows(store: Store, sql: str) -> list[dict[str, Any]]:
    return store.sql(f"select * from ({sql}) order by all")


def _models(folder: Path) -> str:
    return str(folder / "models.yaml")


def _synth(suite: str) -> tuple[str, ...]:
    """Return the flags of `tutti synth` that generate a suite's tasks."""
    count = suite.rpartition("test_per_family: ")[2].strip(" }\n")
    return ("--families", "module,parameter,expression", "--train", "0", "--test", count)
