"""Our side of the load bench: ``python -m bench.load.client URL SESSIONS SECONDS``.

A closed loop of sessions on the client that sweeps call models with
(`tasks.agents.models.client`), on the event loop that sweeps run on, in a process of its own. Out:
one line of JSON: `calls`, each a list of its times as in `Call`, and `cpu_s` of this process from
the first connection to the last answer.
"""

import asyncio
import os
import sys
import time
import uuid

import orjson

from bench.load.calls import Call
from bench.load.stream import stream
from bench.load.wire import REQUEST
from tutti.tasks.agents.models.client import Client


async def load(url: str, sessions: int, seconds: float) -> list[Call]:
    """Run that many sessions, each with one call after the other, for that long. Raises
    NoAnswer."""
    calls: list[Call] = []
    async with Client(url) as client:
        began = time.monotonic()

        async def session() -> None:
            due = began
            while due < began + seconds:
                headers = [(b"X-Call-Id", uuid.uuid4().hex.encode())]
                streamed = await stream(client, headers, orjson.dumps(REQUEST))
                answer, first = streamed.answer, streamed.first_token_at
                assert answer.status == 200 and first is not None, answer.body[:200]
                calls.append(Call(due, answer.sent_at, first, answer.ended_at))
                due = answer.ended_at

        await asyncio.gather(*(session() for _ in range(sessions)))
    return calls


def main(url: str, sessions: int, seconds: float) -> None:
    """Load, print."""
    before = os.times()
    calls = asyncio.run(load(url, sessions, seconds))
    after = os.times()
    cpu_s = after.user + after.system - before.user - before.system
    print(orjson.dumps({"calls": [tuple(call) for call in calls], "cpu_s": cpu_s}).decode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
