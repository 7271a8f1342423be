"""Tests of kill -9 of a gateway's process while programs call it: every program is one attempt
after the next start, whatever was committed."""

import asyncio
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from random import Random

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from tests.serving.engine_double import EngineDouble
from tutti import storage
from tutti.storage.maintenance import verify
from tutti.tasks.platform.project import PROJECT

ROUNDS, PROGRAMS, CALLS = 3, 6, 4
START_S = 120.0


class Gateway:
    """Process of a gateway in front of `engine`."""

    def __init__(self, home: Path, engine: str, journal: bool) -> None:
        self.command = [sys.executable, "-m", "tutti.tasks.serving.gateway", "--engine", engine]
        self.command += ["--port", "0", "--name", "mine", "--policy", "passthrough"]
        self.command += [] if journal else ["--no-journal"]
        self.environment = os.environ | {"TUTTI_HOME": str(home), "PYTHONPATH": str(PROJECT)}
        self.environment.pop("TUTTI_CATALOG_URL", None)

    async def start(self) -> str:
        self.process = await asyncio.create_subprocess_exec(
            *self.command, env=self.environment, stdout=asyncio.subprocess.PIPE
        )
        assert self.process.stdout is not None
        async with asyncio.timeout(START_S):
            line = await self.process.stdout.readline()
        assert b" on " in line, line
        return line.decode().rpartition(" on ")[2].strip()

    async def end(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        await asyncio.wait_for(self.process.communicate(), START_S)


async def agent(url: str, name: str, releases: bool) -> None:
    try:
        async with aiohttp.ClientSession(url) as client:
            for _ in range(CALLS):
                body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
                await client.post(f"/p/{name}/v1/chat/completions", json=body)
                await asyncio.sleep(0.05)
            if releases:
                await client.post("/programs/release", json={"program_id": name})
    except aiohttp.ClientError:
        return


@pytest.mark.slow
@pytest.mark.parametrize("journal", [False, True])
async def test_a_killed_gateway_loses_and_doubles_no_program(tmp_path: Path, journal: bool) -> None:
    """Programs whose calls are stored have one attempt each, none stays in state running, and a
    released program keeps its status."""
    seed = int.from_bytes(os.urandom(4))
    print(f"seed {seed}")
    rng, home, engine = Random(seed), tmp_path / "store", EngineDouble()
    async with TestServer(engine.application()) as server:
        gateway = Gateway(home, str(server.make_url("")).rstrip("/"), journal)
        for turn in range(ROUNDS):
            url = await gateway.start()
            names = [f"{turn}-{number}" for number in range(PROGRAMS)]
            agents = [asyncio.create_task(agent(url, n, n[-1] < "3")) for n in names]
            await asyncio.sleep(rng.uniform(0.1, 2.5))
            await gateway.end(signal.SIGKILL)
            await asyncio.gather(*agents)
        await gateway.start()
        await gateway.end(signal.SIGTERM)
    place = storage.Home(home)
    rows = storage.query("select attempt_id, status, stop_reason, steps from attempts", place)
    counts = Counter(row["attempt_id"] for row in rows)
    called = storage.query("select attempt_id, count(*) as n from calls group by all", place)
    assert counts.keys() == {row["attempt_id"] for row in called} and set(counts.values()) <= {1}
    steps = {row["attempt_id"]: row["steps"] for row in rows}
    assert steps == {row["attempt_id"]: row["n"] for row in called}
    for row in rows:
        lost = row["stop_reason"] == "worker_lost"
        assert row["status"] == ("cancelled" if lost else "ok"), row
    with storage.open_catalog(place) as catalog:
        assert [f for f in verify(catalog, min_age_s=3600).findings if f.kind != "orphan"] == []
