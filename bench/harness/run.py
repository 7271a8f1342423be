"""The harness's figures: ``make bench-harness``. Samples a second against an endpoint that takes
200 ms, with gateway, store and scoring on; Inspect on the same tasks in the same run.

CPU is that of all our processes (this one and the gateway) over the samples. Held concurrency is
the mean number of sessions open over the middle of the run, over those asked; what fraction of them
had a call in flight is given beside it: 512 calls of 200 ms would be 2,560 samples a second.
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import sqlalchemy as sa

from bench.gateway.cost import cpu_s
from bench.harness.wire import CONCURRENCY, QUESTION
from bench.report import Report, Target
from bench.scheduling.peers import PeerMissing, Peers
from tutti import storage
from tutti.storage import Catalog
from tutti.storage import catalog as cat
from tutti.storage.catalog import leasing as leases
from tutti.tasks.agents.models.prompts import opening
from tutti.tasks.benchmarks import benchmark_named
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.serving.engines.engine import ExternalEndpoint
from tutti.tasks.serving.processes.process import Child, answers, claim_port
from tutti.tasks.serving.registry.models import Model
from tutti.tasks.serving.served.services import open_gateway
from tutti.tasks.sweeps.plan import TaskSet
from tutti.tasks.sweeps.plan.config import CellConfig
from tutti.tasks.sweeps.plan.enter import enter_plan
from tutti.tasks.sweeps.plan.plan import plan_of
from tutti.tasks.sweeps.run.budget import BudgetTracker
from tutti.tasks.sweeps.run.runner import Execution, run_cell
from tutti.tasks.sweeps.spec.suite import Suite
from tutti.tasks.task_sets import Task

START_S = 30.0
PEER_S = 600.0
HELD = """
with span as (select min(started_at) a, max(ended_at) b from attempts),
middle as (select a + (b - a) * 0.25 as low, a + (b - a) * 0.75 as high from span),
open as (select 'sessions' as what, started_at a, ended_at b from attempts
         union all select 'calls', sent_at, ended_at from calls)
select what, sum(greatest(0, epoch(least(b, high)) - epoch(greatest(open.a, low))))
       / (epoch(any_value(high)) - epoch(any_value(low))) as held
from open, middle group by what
"""


@dataclass(frozen=True)
class Run:
    """The cost of one cell."""

    samples_per_s: float
    cpu_ms: float
    held_ratio: float
    """Share of the requested sessions that were open."""
    in_flight_ratio: float
    """Share of the requested sessions that waited for the endpoint or the gateway."""
    rss_mb: float
    grown_mb: float
    """Memory growth since the cell began: its plan existed before."""


def task_set(count: int, tools: bool) -> TaskSet:
    """Synthetic tasks that the endpoint answers correctly: immediately, or after four searches."""
    asked = tuple(opening(QUESTION)) if tools else ({"role": "user", "content": QUESTION},)
    made = (Task(str(n), {}, {"answer": "7"}, messages=asked) for n in range(count))
    benchmark = benchmark_named("stdlib" if tools else "gsm8k")
    return TaskSet("task_set:bench", benchmark, tuple(made))


@contextmanager
def endpoint() -> Iterator[tuple[str, Catalog]]:
    """The slow endpoint's URL and an empty store, for the block's duration."""
    with tempfile.TemporaryDirectory(prefix="tutti-harness-") as folder:
        with storage.open_catalog(storage.Home(Path(folder))) as catalog:
            port = claim_port(None)
            command = [sys.executable, "-m", "bench.harness.engine", str(port)]
            url, environment = f"http://127.0.0.1:{port}", {"PYTHONPATH": str(PROJECT)}
            with Child("bench-endpoint", command, environment, catalog) as child:
                child.wait_ready(lambda: answers(f"{url}/v1/models"), START_S)
                yield url, catalog


def measure(count: int, tools: bool, sessions: int) -> Run:
    """One cell of `count` samples, in a store of its own."""
    with endpoint() as (url, catalog):
        return _measure(url, count, tools, sessions, catalog)


def _measure(url: str, count: int, tools: bool, sessions: int, catalog: Catalog) -> Run:
    model = Model(provider="openai", endpoint=url, served_name="mock", context_tokens=32768)
    served = ExternalEndpoint("mock", model, catalog)
    suite = Suite(
        name="harness", benchmark="gsm8k", policies=("passthrough",), concurrency=(sessions,)
    )
    tasks = task_set(count, tools)
    ids = (served.engine_id, "checkpoint:bench", "mock", "index:bench")
    plan = plan_of(suite, CellConfig(tasks, *ids))
    enter_plan(plan, catalog)
    with open_gateway(served, catalog) as client:
        deployment: Any = SimpleNamespace(
            engine=served, every=[served], gateway=client, search_url=url
        )
        lease = leases.acquire(catalog, plan.sweep_id)
        owner = next(
            row["pid"] for row in catalog.rows(sa.select(cat.processes))
            if row["role"] == "gateway"
        )  # fmt: skip
        planned_mb, before, began = _rss_mb(), _cpu(owner), time.perf_counter()
        spending = BudgetTracker(suite.budget)
        execution = Execution(plan, deployment, catalog, "run:bench", lease, spending)
        done = asyncio.run(run_cell(execution, plan.cells[0]))
        seconds, spent = time.perf_counter() - began, _cpu(owner) - before
    assert done.correct == count, f"{done.correct} of {count} samples were right"
    held = {row["what"]: row["held"] / sessions for row in storage.query(HELD, catalog.home)}
    rss_mb = _rss_mb()
    return Run(
        samples_per_s=count / seconds,
        cpu_ms=spent / count * 1e3,
        held_ratio=held["sessions"],
        in_flight_ratio=held["calls"],
        rss_mb=rss_mb,
        grown_mb=rss_mb - planned_mb,
    )


def _rss_mb() -> float:
    """The peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _cpu(gateway_pid: int) -> float:
    own = os.times()
    return own.user + own.system + cpu_s(gateway_pid)


def inspect_run(python: Path, count: int) -> tuple[float, float]:
    """Inspect's samples a second, and its CPU milliseconds a sample, against the endpoint alone."""
    with endpoint() as (url, _):
        ran = subprocess.run(
            # Not as a file: beside it lies a `statistics` that is not the standard library's.
            [str(python), "-P", "-m", "bench.harness.inspect", url, str(count)],
            capture_output=True, text=True, timeout=PEER_S,
            env=os.environ | {"PYTHONPATH": str(PROJECT)},
        )  # fmt: skip
    if ran.returncode:
        raise PeerMissing(f"inspect ended with {ran.returncode}: {ran.stderr.strip()[-300:]}")
    said = json.loads(ran.stdout.strip().splitlines()[-1])
    if said["status"] != "success" or said["samples"] != count:
        raise PeerMissing(f"inspect finished {said['samples']} of {count}: {said['status']}")
    return count / said["seconds"], said["cpu_s"] / count * 1e3


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--samples", type=int, default=8192, help="of the single-turn cell")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--memory", type=int, default=0, help="samples of a run for memory alone")
    parser.add_argument("--no-peers", action="store_true")
    given = parser.parse_args(arguments)
    report = Report("harness", given.repeats)
    single, tools, peer = [], [], []
    peers = Peers(storage.current_home().root.absolute() / "bench" / "peers")
    for _ in range(given.repeats):
        single.append(measure(given.samples, False, CONCURRENCY))
        tools.append(measure(max(given.samples // 4, CONCURRENCY), True, CONCURRENCY))
        if not given.no_peers:
            try:
                peer.append(inspect_run(peers.inspect(), max(given.samples // 8, CONCURRENCY)))
            except PeerMissing as error:
                report.note(f"inspect is absent: {error}")
    enter = report.figure
    enter("single_turn_samples_per_s", [r.samples_per_s for r in single], Target(500, least=True))
    enter("cpu_ms_per_sample", [r.cpu_ms for r in single], Target(3))
    enter("held_ratio", [r.held_ratio for r in single], Target(0.98, least=True))
    enter("calls_in_flight_ratio", [r.in_flight_ratio for r in single])
    enter("five_step_samples_per_s", [r.samples_per_s for r in tools], Target(120, least=True))
    enter("five_step_cpu_ms_per_sample", [r.cpu_ms for r in tools])
    if len(peer) == given.repeats:
        ratios = [ours.samples_per_s / theirs[0] for ours, theirs in zip(single, peer, strict=True)]
        enter("vs_inspect_ratio", ratios, Target(10, least=True))
        report.peer("inspect", "samples_per_s", [rate for rate, _ in peer])
        report.peer("inspect", "cpu_ms_per_sample", [cpu for _, cpu in peer])
    if given.memory:
        few = measure(given.memory // 10, False, CONCURRENCY)
        many = measure(given.memory, False, CONCURRENCY)
        enter("rss_100k_mb", [many.rss_mb])
        enter("rss_100k_grown_mb", [many.grown_mb])
        report.note(f"most memory after {given.memory // 10:,} samples: {few.rss_mb:.0f} MB")
    report.show()


if __name__ == "__main__":
    main()
