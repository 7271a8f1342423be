"""The cost of recording to the gateway's event loop: calls at a steady rate, with the writer
running.

Run in a process of its own (``python -m bench.store.record MODE SECONDS``), for a gateway is one;
prints a line of JSON. Modes: `kept` are calls of a sweep's own agents, whose messages come with the
attempt; `seen` are calls of unmodified agents, whose messages the gateway stores from the prompts;
`none` makes what makes the rows and lets it go: the loop without a writer.
"""

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import monotonic, perf_counter, perf_counter_ns
from typing import Any

import numpy as np
import orjson
import sqlalchemy as sa
import uvloop

from bench.report import Report, Target
from bench.store.data import CELL, RandomText
from tutti import storage
from tutti.storage import catalog as cat
from tutti.tasks.serving.gateway.calls.record import CallRecord
from tutti.tasks.serving.gateway.calls.request import CallRequest
from tutti.tasks.serving.gateway.calls.transcripts import Transcripts
from tutti.tasks.serving.registry.models import Prices

CALLS_PER_S = 5_000
TICK_S = 0.001  # how often calls end, and how often the loop's lag is measured
PRICES = Prices(prompt=0.2, cached=0.02, completion=0.8)
STEPS = 6  # calls of a program; each prompt is the one before with two messages more
MODES = ("kept", "seen", "none")
Add = Callable[[Callable[[], storage.Group]], object]


def measure_record(report: Report, seconds: float, repeats: int) -> None:
    """Enter the figures: with the writer, and without, in turn."""
    found: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    for _ in range(repeats):
        for mode in MODES:
            found[mode].append(_in_process(mode, seconds))
    for mode, prefix in (("kept", ""), ("seen", "seen_")):
        for name in found[mode][0]:
            target = Target(50.0) if name == "record_p99_us" else None
            report.figure(prefix + name, [each[name] for each in found[mode]], target)
    for name in found["none"][0]:
        report.peer("no_writer", name, [each[name] for each in found["none"]])
    report.note(
        "record_…: the record's end, its cost and `add_made`, as the gateway's `ended` does, per "
        "call; "
        f"{CALLS_PER_S:,} calls/s on uvloop while the writer commits; seen: the "
        "gateway stores the messages too. loop_lag: how late a sleep of 1 ms ends."
    )


def _in_process(mode: str, seconds: float) -> dict[str, float]:
    command = [sys.executable, "-m", __name__, mode, str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


class _Load:
    """Ends calls at `CALLS_PER_S` and times what recording each costs."""

    def __init__(self, add: Add, home: storage.Home, mode: str) -> None:
        self.add, self.mode = add, mode
        self.transcripts = Transcripts(home)
        texts = RandomText(3).texts(2 * STEPS + 1)
        roles = ["user", *["assistant", "tool"] * STEPS]
        self.messages = [{"role": r, "content": c} for r, c in zip(roles, texts, strict=True)]
        self.answers = [orjson.dumps(_answer(self.messages[2 * n + 1])) for n in range(STEPS)]
        self.record_ns: list[int] = []
        self.add_ns: list[int] = []
        self.lag_s: list[float] = []

    async def run(self, seconds: float) -> None:
        """Run the calls, and measure the loop's lag meanwhile."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        watch = asyncio.create_task(self._watch(until))
        due = loop.time()
        while due < until:
            while due <= loop.time():
                self._record_one()
                due += 1 / CALLS_PER_S
            await asyncio.sleep(TICK_S)
        await watch

    def _record_one(self) -> None:
        program, step = divmod(len(self.record_ns), STEPS)
        prompt = self.messages[: 2 * step + 1]
        body = {"model": "made-up", "messages": prompt, "temperature": 0.7, "seed": program}
        record = CallRecord(self._asked(f"attempt:{program:016x}", step + 1, body))
        record.http_status, record.status, record.held_s = 200, "ok", 0.0
        record.endpoint, record.prices = "engine:00000000000000aa", PRICES
        record.was_taken = True
        record.reported.read(self.answers[step])
        record.answered.append(self.answers[step])
        began = perf_counter_ns()
        record.latency_s = monotonic() - record.sent
        record.policy, record.concurrency = "adaptive", 64
        record.cost_usd()
        made = perf_counter_ns()
        self.add(lambda: storage.Group(record.rows(self.transcripts)))
        ended = perf_counter_ns()
        self.record_ns.append(ended - began)
        self.add_ns.append(ended - made)

    def _asked(self, program: str, step: int, body: dict[str, Any]) -> CallRequest:
        return CallRequest(
            path=b"/v1/chat/completions",
            kind="chat/completions",
            headers=[],
            body=body,
            raw=b"",
            program=program,
            is_anonymous=False,
            call_id=f"{program}/{step}",
            cell=CELL,
            step=step,
            role="orchestrator",
            keeps_messages=self.mode != "seen",
            model="made-up",
            stream=False,
        )

    async def _watch(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            began = perf_counter()  # uvloop's own clock has millisecond resolution
            await asyncio.sleep(TICK_S)
            self.lag_s.append(perf_counter() - began - TICK_S)

    def result(self, seconds: float) -> dict[str, float]:
        """The figures of this run."""
        record, add = np.array(self.record_ns) / 1e3, np.array(self.add_ns) / 1e3
        lag = np.array(self.lag_s) * 1e3
        return {
            "record_p50_us": float(np.quantile(record, 0.5)),
            "record_mean_us": float(record.mean()),
            "record_p99_us": float(np.quantile(record, 0.99)),
            "record_add_p99_us": float(np.quantile(add, 0.99)),
            "recorded_per_s": len(record) / seconds,
            "loop_lag_p50_ms": float(np.quantile(lag, 0.5)),
            "loop_lag_p99_ms": float(np.quantile(lag, 0.99)),
            "loop_lag_max_ms": float(lag.max()),
        }


def _answer(message: dict[str, str]) -> dict[str, Any]:
    usage = {"prompt_tokens": 2100, "completion_tokens": 250}
    usage_of_cache = {"prompt_tokens_details": {"cached_tokens": 1800}}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"choices": [choice], "usage": usage | usage_of_cache}


def main() -> None:
    """One run; prints its figures."""
    parser = argparse.ArgumentParser(prog="bench.store.record")
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("seconds", type=float)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tutti-bench-") as folder:
        home = storage.Home(Path(folder))
        with storage.open_catalog(home) as catalog, storage.BufferedWriter(catalog) as writer:
            add = (lambda make: None) if given.mode == "none" else writer.add_made
            load = _Load(add, home, given.mode)
            gc.freeze()
            uvloop.run(load.run(given.seconds))
            parts = catalog.rows(sa.select(cat.parts.c.part_id))  # each a sync and a file to open
        assert not writer.dropped, f"{writer.dropped} calls were not recorded"
    print(json.dumps(load.result(given.seconds) | {"parts_per_s": len(parts) / given.seconds}))


if __name__ == "__main__":
    main()
