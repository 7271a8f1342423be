"""Tests of the bench: reproducible vectors, and a client that counts correctly."""

import asyncio
from pathlib import Path

import numpy as np

from bench.retrieval.client import Job, Load
from bench.retrieval.data import Numbered, TableEmbedder, texts, write_vectors

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def test_the_same_seed_gives_the_same_clusters(tmp_path: Path) -> None:
    """The vectors are unit vectors with near neighbours, unlike i.i.d. vectors."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_vectors(tmp_path / name, 3_000, 20)
    vectors = np.load(tmp_path / "one" / "vectors.npy")
    assert (vectors == np.load(tmp_path / "two" / "vectors.npy")).all()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    scores = np.sort(vectors[:200] @ vectors.T, axis=1)
    assert np.median(scores[:, -3]) > 0.35 > np.median(scores[:, 1_500]) + 0.2
    embedder = TableEmbedder(tmp_path / "one")
    assert (embedder.embed([Numbered(9)[7].text]) == vectors[7:8]).all()
    assert [*texts(3)] == [*texts(3)]


async def test_the_client_counts_what_is_answered() -> None:
    """In closed and paced mode, every request uses its connection in turn, and none is lost at the
    end."""
    seen = 0
    serving: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        task = asyncio.current_task()
        assert task is not None
        serving.append(task)
        while head := await reader.readline():
            length = 0
            while (line := await reader.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            assert head.startswith(b"POST /retrieve")
            await reader.readexactly(length)
            seen += 1
            await asyncio.sleep(0.002)
            writer.write(ANSWER[:30])
            writer.write(ANSWER[30:])
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    for rate, least, most in ((0.0, 100, 1e9), (100.0, 20, 60)):
        load = Load(Job(port, 4, 0.5, rate))
        found = await load.run()
        assert found.failed == 0 and seen == load.asked
        assert least <= found.answered <= most and found.p95_ms >= found.p50_ms >= 2
        seen = 0
    await asyncio.gather(*serving)
    server.close()
    await server.wait_closed()
