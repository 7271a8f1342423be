"""Mock engines for the gateway's bench: ``python -m bench.gateway.engine PORT [PORT …]``.

One process, an engine a port, on raw asyncio protocols and uvloop, so that they cost far less than
what stands before them. They answer ``/health``, ``/v1/models``, ``/metrics`` in vLLM's names and
``/v1/chat/completions``: 0.5 kB of JSON, or with ``"stream": true`` as many events as `max_tokens`
says, one each `step_ms` on every stream, as an engine's steps come.

``POST /control`` sets the behaviour of all: ``{"mode": "now" | "delay" | "hold", "delay_ms": …,
"step_ms": …, "blocks": …}``, and ``{"release": n}`` answers the n calls held longest; the answer
says how many calls are held and how many were answered.
"""

import argparse
import asyncio
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import orjson
import uvloop

from bench.gateway import wire

BLOCK_TOKENS = 16
MANY_BLOCKS = 2**20  # of KV space: nothing is scarce unless a bench says so
CHARACTERS_A_TOKEN = 4
MAX_TOKENS = re.compile(rb'"max_tokens": ?(\d+)')
STREAMS = (b'"stream":true', b'"stream": true')
WHOLE_ANSWER = wire.response(wire.ANSWER)
MODELS = {"object": "list", "data": [{"id": "mock", "object": "model", "max_model_len": 32768}]}
METRICS = """\
vllm:cache_config_info{{block_size="{block}",num_gpu_blocks="{blocks}",engine="0"}} 1.0
vllm:num_requests_running{labels} {running}
vllm:num_requests_waiting{labels} 0.0
vllm:kv_cache_usage_perc{labels} {usage}
vllm:prefix_cache_queries_total{labels} {prompt}
vllm:prefix_cache_hits_total{labels} {hits}
vllm:prompt_tokens_total{labels} {prompt}
vllm:generation_tokens_total{labels} {generated}
vllm:num_preemptions_total{labels} 0.0
vllm:request_success_total{{engine="0",model_name="mock",finished_reason="stop"}} {answered}
"""


@dataclass
class Behaviour:
    """The behaviour of all engines of the process."""

    mode: str = "now"
    delay_ms: float = 0.0
    step_ms: float = 10.0
    blocks: int = MANY_BLOCKS


@dataclass
class Engines:
    """The state shared by the engines, and the calls that they hold."""

    behaviour: Behaviour = field(default_factory=Behaviour)
    held: deque[tuple["EngineConnection", int]] = field(default_factory=deque)
    """Calls that wait for a release, longest first, with their prompts' tokens."""
    streams: list["EngineConnection"] = field(default_factory=list)
    answered: int = 0

    def control(self, order: dict[str, Any]) -> dict[str, Any]:
        """Apply a control request; returns the current state."""
        for _ in range(min(int(order.pop("release", 0)), len(self.held))):
            self.held.popleft()[0].answer()
        for name, value in order.items():
            setattr(self.behaviour, name, type(getattr(self.behaviour, name))(value))
        return {"held": len(self.held), "answered": self.answered}

    async def step_for_ever(self) -> None:
        """Send every stream's next event at each step, forever."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due = max(due + self.behaviour.step_ms / 1000, loop.time())
            await asyncio.sleep(due - loop.time())
            self.streams = [stream for stream in self.streams if stream.step()]


class EngineConnection(asyncio.Protocol):
    """One connection to one engine; a client sends its next request after its answer."""

    transport: asyncio.Transport

    def __init__(self, engines: Engines, counts: dict[str, int]) -> None:
        self.engines, self.counts = engines, counts
        self.buffer = b""
        self.left = 0
        """Events that its stream has left."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A router has connected."""
        # uvloop's transports are not a subclass
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """It was closed: its pending answers are dropped."""
        self.left = 0
        held = self.engines.held
        for place in [place for place, (served, _) in enumerate(held) if served is self]:
            del held[place]
            break

    def data_received(self, data: bytes) -> None:
        """Answer when the request is complete."""
        self.buffer += data
        whole = wire.length_of(self.buffer)
        if whole is None or len(self.buffer) < whole:
            return
        if whole < 0 and not self.buffer.endswith(wire.LAST_CHUNK):
            return
        request, self.buffer = self.buffer, b""
        self.serve(request)

    def serve(self, request: bytes) -> None:
        """Answer one request."""
        if b" /v1/chat/completions " in request[:64]:
            self.serve_call(request)
            return
        path = request.split(b" ", 2)[1].split(b"?")[0]
        if path == b"/control":
            found = self.engines.control(orjson.loads(wire.body_of(request)))
            self.transport.write(wire.response(orjson.dumps(found)))
        elif path == b"/metrics":
            self.transport.write(wire.response(self.metrics().encode(), b"text/plain"))
        elif path == b"/health":
            self.transport.write(wire.response(b"{}"))
        elif path == b"/v1/models":
            self.transport.write(wire.response(orjson.dumps(MODELS)))
        else:
            error = wire.response(b'{"error":"the mock has no such path"}', status=b"404 Not Found")
            self.transport.write(error)

    def serve_call(self, request: bytes) -> None:
        """A chat completion: immediately, delayed, held, or event by event."""
        tokens = len(request) // CHARACTERS_A_TOKEN
        self.counts["prompt"] += tokens
        behaviour = self.engines.behaviour
        if any(form in request for form in STREAMS):
            asked = MAX_TOKENS.search(request)
            self.left = int(asked.group(1)) if asked else 1
            self.transport.write(wire.STREAM_HEAD + wire.FIRST_EVENT)
            self.engines.streams.append(self)
        elif behaviour.mode == "now":
            self.answer()
        elif behaviour.mode == "delay":
            asyncio.get_running_loop().call_later(behaviour.delay_ms / 1000, self.answer)
        else:
            self.engines.held.append((self, tokens))

    def answer(self) -> None:
        """Send the fixed answer."""
        self.engines.answered += 1
        self.counts["answered"] += 1
        self.transport.write(WHOLE_ANSWER)

    def step(self) -> bool:
        """Send the stream's next event; returns False after its last one."""
        self.left -= 1
        if self.left < 0:
            return False  # its client has gone
        if self.left > 0:
            self.transport.write(wire.TOKEN_EVENT)
            return True
        self.transport.write(wire.TOKEN_EVENT + wire.LAST_EVENTS)
        self.engines.answered += 1
        self.counts["answered"] += 1
        return False

    def metrics(self) -> str:
        """Counters in vLLM's names."""
        held = [tokens for served, tokens in self.engines.held if served.counts is self.counts]
        blocks = self.engines.behaviour.blocks
        return METRICS.format(
            labels='{engine="0",model_name="mock"}',
            block=BLOCK_TOKENS,
            blocks=blocks,
            running=len(held),
            usage=min(1.0, sum(held) / (blocks * BLOCK_TOKENS)),
            prompt=self.counts["prompt"],
            hits=self.counts["prompt"] // 2,
            generated=self.counts["answered"] * wire.COMPLETION_TOKENS,
            answered=self.counts["answered"],
        )


async def serve(ports: Sequence[int], behaviour: Behaviour) -> None:
    """Listen on all ports, forever."""
    engines = Engines(behaviour)
    loop = asyncio.get_running_loop()
    for port in ports:
        made = partial(EngineConnection, engines, {"prompt": 0, "answered": 0})
        await loop.create_server(made, "127.0.0.1", port, backlog=8192)
    await engines.step_for_ever()


def main() -> None:
    """Parse and serve."""
    parser = argparse.ArgumentParser(prog="bench.gateway.engine", description=__doc__)
    parser.add_argument("ports", type=int, nargs="+")
    parser.add_argument("--blocks", type=int, default=MANY_BLOCKS, help="of KV space, 16 tokens")
    parser.add_argument("--mode", choices=("now", "delay", "hold"), default="now")
    given = parser.parse_args()
    uvloop.run(serve(given.ports, Behaviour(mode=given.mode, blocks=given.blocks)))


if __name__ == "__main__":
    main()
