"""Embeds a corpus in shards: each shard is one file, written once, by whichever worker is free.

In: a folder with ``documents.jsonl`` and an embedder. Out: ``shards/<n>.npy`` in it. A shard is
written to a temporary name, synced and renamed. Existing shards are therefore complete, and a run
after a crash makes only the missing ones. More than one worker, or a cluster, uses
dask.distributed.
"""

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tutti.tasks.retrieval.embedder import Embedder
from tutti.tasks.retrieval.passage import PassageStore
from tutti.tasks.retrieval.spec import IndexSpec

FOLDER = "shards"

Advance = Callable[[int, int], None]
"""Called with the number of documents embedded and their total."""


def shard_path(folder: Path, shard: int) -> Path:
    """The file of one shard."""
    return folder / FOLDER / f"{shard:06d}.npy"


def embed_shard(folder: Path, shard: int, spec: IndexSpec, embedder: Embedder) -> int:
    """Embed one shard of `folder`'s documents; returns their number. Raises EmbedderFailed."""
    store, size = PassageStore(folder), spec.shard_documents
    passages = store[shard * size : (shard + 1) * size]
    texts = [spec.template.format(title=p.title, text=p.text, source=p.source) for p in passages]
    vectors = embedder.embed(texts)
    path = shard_path(folder, shard)
    staging = path.with_suffix(f".{uuid.uuid4().hex}.tmp")
    with staging.open("wb") as file:
        np.save(file, vectors.astype(np.float32, copy=False))
        file.flush()
        os.fsync(file.fileno())
    os.replace(staging, path)
    return len(passages)


def embed_all(
    folder: Path,
    spec: IndexSpec,
    embedder: Embedder,
    advance: Advance,
    workers: int = 1,
    cluster: str | None = None,
) -> int:
    """Embed the missing shards; returns the total number of shards.

    `cluster`: address of a Dask scheduler whose workers see `folder`. Raises EmbedderFailed.
    """
    (folder / FOLDER).mkdir(exist_ok=True)
    total, size = len(PassageStore(folder)), spec.shard_documents
    count = -(-total // size)
    missing = [shard for shard in range(count) if not shard_path(folder, shard).exists()]
    left = sum(min(total, (shard + 1) * size) - shard * size for shard in missing)
    done = total - left
    advance(done, total)
    several = cluster is not None or (workers > 1 and len(missing) > 1)
    work = _on_dask if several else _here
    for embedded in work(folder, missing, spec, embedder, workers, cluster):
        done += embedded
        advance(done, total)
    return count


def _here(
    folder: Path,
    missing: Sequence[int],
    spec: IndexSpec,
    embedder: Embedder,
    workers: int,
    cluster: str | None,
) -> Iterator[int]:
    for shard in missing:
        yield embed_shard(folder, shard, spec, embedder)


def _on_dask(
    folder: Path,
    missing: Sequence[int],
    spec: IndexSpec,
    embedder: Embedder,
    workers: int,
    cluster: str | None,
) -> Iterator[int]:
    dask: Any = import_module("distributed")  # slow to import, and untyped

    local = None
    if cluster is None:
        # Without a dashboard: its packages are not installed.
        local = dask.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    try:
        with dask.Client(local or cluster) as client:
            shared = client.scatter(embedder, broadcast=True)
            # Not pure: the result of a shard is its file, not its return value.
            jobs = [
                client.submit(embed_shard, folder, shard, spec, shared, pure=False)
                for shard in missing
            ]
            for job in dask.as_completed(jobs):
                yield job.result()
    finally:
        if local is not None:
            local.close()


def join_shards(folder: Path, count: int, path: Path) -> None:
    """Write the vectors of all shards into one file, in order, whole or not at all."""
    if path.exists():
        return
    shapes = [np.load(shard_path(folder, shard), mmap_mode="r").shape for shard in range(count)]
    rows, dimensions = sum(shape[0] for shape in shapes), shapes[0][1]
    staging = path.with_suffix(".tmp")
    joined = np.lib.format.open_memmap(
        staging, mode="w+", dtype=np.float32, shape=(rows, dimensions)
    )
    start = 0
    for shard, shape in enumerate(shapes):
        joined[start : start + shape[0]] = np.load(shard_path(folder, shard))
        start += shape[0]
    joined.flush()
    del joined
    os.replace(staging, path)
