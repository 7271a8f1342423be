"""How long one call can occupy the gateway's event loop: ``python -m bench.gateway.stalls``.

In: shapes of hostile calls and answers. Out: a line a shape, over `--runs` runs: the longest turn
of the loop in CPU milliseconds of its thread, and in those of the whole process (what the loop
feels: other threads that hold the GIL count). Other programs on the machine do not count. The
gateway runs here; client and engine run in another process, ``--peer SHAPE PORT``.
"""

import argparse
import asyncio
import contextlib
import gc
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from bench.gateway import wire
from bench.gateway.process import free_port
from tutti.storage import Home, open_catalog
from tutti.tasks.serving.gateway import EndpointConfig, Gateway, GatewaySettings
from tutti.tasks.serving.gateway.command import SWITCH_S
from tutti.tasks.serving.gateway.endpoints.endpoint import ServedEntry

MIB = 2**20
SETTLE_S = 2.0  # until the call is recorded
CLOSE = b"POST /v1/%b HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
EMOJI = "\U0001f600".encode()
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def post(body: bytes, path: bytes = b"chat/completions") -> bytes:
    """A request with its length."""
    return CLOSE % path + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def chat(content: bytes, more: bytes = b"") -> bytes:
    """A chat call."""
    said = b'{"model":"mock","messages":[{"role":"user","content":"%b"}]%b}'
    return post(said % (content, more))


def chunked(data: bytes, size: int) -> bytes:
    """A body in chunks of `size` bytes."""
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    return b"".join([b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]) + b"0\r\n\r\n"


def _many(item: bytes, count: int) -> bytes:
    return b",".join([item] * count)


def _keys(count: int) -> bytes:
    return b",".join([b'"k%d":1' % number for number in range(count)])


def _numbers(count: int, whole: bool) -> bytes:
    draw = random.Random(1)
    return b",".join(
        [b"%d" % draw.randrange(150_000) if whole else b"%r" % draw.random() for _ in range(count)]
    )


MESSAGE = b'{"role":"user","content":"x"}'
PIPELINED = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
UPGRADE = PIPELINED[:-2] + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
LAST = PIPELINED[:-2] + b"Connection: close\r\n\r\n"
REQUESTS: dict[str, Callable[[], bytes]] = {
    "text 63 MiB": lambda: chat(b"hello wor " * (63 * MIB // 10)),
    "text 16 MiB": lambda: chat(b"hello wor " * (MIB * 159 // 100)),
    "text 16 MiB, wide": lambda: chat(EMOJI + b"hello wor " * (MIB * 159 // 100)),
    "text 16 MiB, escapes": lambda: chat(rb"\u00e9\n\"" * (MIB * 159 // 100)),
    "keys 900,000": lambda: chat(b"x", b',"a":{%b}' % _keys(900_000)),
    "keys 90,000": lambda: chat(b"x", b',"a":{%b}' % _keys(90_000)),
    "messages 240,000": lambda: post(b'{"model":"mock","messages":[%b]}' % _many(MESSAGE, 240_000)),
    "messages 24,000": lambda: post(b'{"model":"mock","messages":[%b]}' % _many(MESSAGE, 24_000)),
    "token ids 990,000": lambda: post(
        b'{"model":"mock","prompt":[%b]}' % _numbers(990_000, True), b"completions"
    ),
    "lists 330,000": lambda: chat(b"x", b',"a":[%b]' % _many(b"[1]", 330_000)),
    "renamed model 16 MiB": lambda: chat(
        EMOJI + b"hello wor " * (MIB * 159 // 100), b',"a":{"model":"mock"},"program_id":"p"'
    ).replace(b"mock", b"name"),
    "size of 16 MiB": lambda: post(
        b'{"model":"mock","prompt":"%b"}' % (EMOJI + b"x" * (15 * MIB)), b"tokenize"
    ),
    "body in bytes 4 MiB": lambda: (
        CLOSE % b"chat/completions"
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + chunked(b'{"model":"mock","a":"%b","messages":[]}' % (b"x" * 4 * MIB), 1)
    ),
    "pipelined 40,000": lambda: PIPELINED * 40_000 + LAST,
    "upgrades 4,000": lambda: UPGRADE * 4_000 + LAST,
}
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
ANSWERS: dict[str, Callable[[], bytes]] = {
    "stream in 6 bytes 4 MiB": lambda: STREAM + chunked(EVENT * (4 * MIB // len(EVENT)), 6),
    "stream of usage 4 MiB": lambda: (
        STREAM + chunked(b'data:{"usage"\n\n' * (4 * MIB // 15), 65_536)
    ),
    "answer 60 MiB": lambda: wire.response(wire.ANSWER.replace(b"the", b"x" * 60 * MIB, 1)),
    "answer 31 MiB": lambda: wire.response(wire.ANSWER.replace(b"the", b"x" * 31 * MIB, 1)),
    "answer of 990,000 floats": lambda: wire.response(
        b'{"data":[%b],"usage":{"prompt_tokens":1}}' % _numbers(990_000, False)
    ),
    "answer of 450,000 keys": lambda: wire.response(
        wire.ANSWER[:-1] + b',"a":{%b}}' % _keys(450_000)
    ),
}
SMALL = chat(b"hi", b',"stream":true')


class Turns:
    """The CPU time of each turn of the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.reset()
        self._beat()

    def reset(self) -> None:
        """Begin anew."""
        self._thread = self.began = time.thread_time()
        self._process = time.process_time()
        self.longest_s = self.felt_s = 0.0

    def _beat(self) -> None:
        thread, process = time.thread_time(), time.process_time()
        self.longest_s = max(self.longest_s, thread - self._thread)
        self.felt_s = max(self.felt_s, process - self._process)
        self._thread, self._process = thread, process
        self._loop.call_soon(self._beat)


async def measure(shape: str, runs: int) -> tuple[list[float], list[float]]:
    """The longest turns of a shape: the thread's, and the process's; milliseconds."""
    engine_port = free_port()
    command = [sys.executable, "-m", "bench.gateway.stalls", "--peer", shape, str(engine_port)]
    peer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert peer.stdin is not None and peer.stdout is not None
    peer.stdout.readline()
    own, felt = list[float](), list[float]()
    with tempfile.TemporaryDirectory() as home, open_catalog(Home(Path(home))) as catalog:
        gateway = Gateway(catalog, GatewaySettings(policy="passthrough", record_tokens=False))
        entries = {"name": ServedEntry(served_name="mock")}
        url = f"http://127.0.0.1:{engine_port}"
        config = EndpointConfig(url=url, models=("mock", "name"), entries=entries)
        port = await gateway.start("127.0.0.1", 0, [config])
        await asyncio.sleep(SETTLE_S)
        turns = Turns()
        for _ in range(runs):
            gc.collect()
            await asyncio.sleep(0.05)
            turns.reset()
            peer.stdin.write(b"%d\n" % port)
            peer.stdin.flush()
            said = await asyncio.to_thread(peer.stdout.readline)
            await asyncio.sleep(SETTLE_S)
            own.append(turns.longest_s * 1000)
            felt.append(turns.felt_s * 1000)
        print(f"{shape:26s} {said.decode().strip():30.30s}", end=" ")
        peer.stdin.close()
        peer.wait()
        await gateway.stop()
    return own, felt


# The other process


def serve_peer(shape: str, port: int) -> None:
    """An engine at `port`, and a client that sends the shape's request whenever it gets a port."""
    answer = ANSWERS[shape]() if shape in ANSWERS else wire.response(wire.ANSWER)
    sent = REQUESTS[shape]() if shape in REQUESTS else SMALL
    listening = socket.create_server(("127.0.0.1", port))
    threading.Thread(target=_accept, args=(listening, answer), daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        print(_ask(int(line), sent), flush=True)


def _accept(listening: socket.socket, answer: bytes) -> None:
    while True:
        link, _ = listening.accept()
        threading.Thread(target=_answer, args=(link, answer), daemon=True).start()


def _answer(link: socket.socket, answer: bytes) -> None:
    with link, contextlib.suppress(OSError):  # refused before its end
        while data := _head(link):
            left = (wire.length_of(data) or 0) - len(data)
            while left > 0:
                left -= len(link.recv(min(left, MIB)))
            is_call = data.startswith(b"POST") and b"/tokenize" not in data[:40]
            link.sendall(answer if is_call else wire.response(b"{}"))


def _head(link: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data and (piece := link.recv(MIB)):
        data += piece
    return data


def _ask(port: int, sent: bytes) -> str:
    with socket.create_connection(("127.0.0.1", port)) as link:
        sender = threading.Thread(target=_send, args=(link, sent))
        sender.start()
        first, count, last = b"", 0, b""
        with contextlib.suppress(ConnectionResetError):
            while piece := link.recv(MIB):
                first = first or piece[:12]
                count += (last + piece).count(b"HTTP/1.1 ")
                last = piece[-8:]
        sender.join()
    return f"{first[9:].decode()} ({count} answers)"


def _send(link: socket.socket, sent: bytes) -> None:
    with contextlib.suppress(OSError):  # refused before its end
        link.sendall(sent)


def main(arguments: Any = None) -> None:
    """Measure each shape."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", nargs=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="")
    given = parser.parse_args(arguments)
    if given.peer:
        serve_peer(given.peer[0], int(given.peer[1]))
        return
    gc.disable()
    sys.setswitchinterval(SWITCH_S)
    for shape in [*REQUESTS, *ANSWERS]:
        if given.only in shape:
            own, felt = uvloop.run(measure(shape, given.runs))
            print(
                f"loop ms: {statistics.median(own):6.1f} most {max(own):6.1f}  "
                f"felt ms: {statistics.median(felt):6.1f} most {max(felt):6.1f}  n={len(own)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
