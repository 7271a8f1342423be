"""Building an index: documents and an `IndexSpec` in, an artifact folder out.

An index's id is the hash of corpus, embedder and spec. Work happens in ``<folder>.building``, where
a run after a crash resumes; the final folder appears complete or not at all. Documents are embedded
in shards, each a file that one worker writes completely; more than one worker, or a cluster, uses
dask.distributed.
"""

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np

from tutti.storage import Catalog, artifact_id, replacing
from tutti.storage import catalog as cat
from tutti.tasks.retrieval import bm25
from tutti.tasks.retrieval.ann import Ann, write_ann
from tutti.tasks.retrieval.bm25 import write_bm25
from tutti.tasks.retrieval.corpus import Document, corpus_id
from tutti.tasks.retrieval.embedder import NAME, Embedder, HashedNgrams
from tutti.tasks.retrieval.passage import (
    DOCUMENTS,
    Passage,
    PassageStore,
    hash_passages,
    read_jsonl,
    stdlib_passages,
    write_passages,
)
from tutti.tasks.retrieval.probe import probe_names, probe_recall
from tutti.tasks.retrieval.spec import STDLIB_TEMPLATE, IndexSpec

SHARDS = "shards"

Advance = Callable[[int, int], None]  # called with the number of documents embedded and their total


@dataclass(frozen=True)
class EmbedWorkers:
    """The processes that embed shards."""

    count: int = 1  # more than one: Dask is used
    cluster: str | None = None  # address of a running Dask scheduler


ONE_WORKER = EmbedWorkers()


def shard_path(folder: Path, shard: int) -> Path:
    return folder / SHARDS / f"{shard:06d}.npy"


def embed_shard(folder: Path, shard: int, spec: IndexSpec, embedder: Embedder) -> int:
    """Embed one shard of `folder`'s documents; returns their number. Raises EmbedderFailed."""
    store, size = PassageStore(folder), spec.shard_documents
    passages = store[shard * size : (shard + 1) * size]
    vectors = embedder.embed([spec.text(passage) for passage in passages])
    with replacing(shard_path(folder, shard)) as staging, staging.open("wb") as file:
        np.save(file, vectors.astype(np.float32, copy=False))
    return len(passages)


def embed_all(
    folder: Path,
    spec: IndexSpec,
    embedder: Embedder,
    advance: Advance,
    workers: EmbedWorkers = ONE_WORKER,
) -> int:
    """Embed the missing shards; returns the total number of shards. Raises EmbedderFailed."""
    (folder / SHARDS).mkdir(exist_ok=True)
    total, size = len(PassageStore(folder)), spec.shard_documents
    count = -(-total // size)
    missing = [shard for shard in range(count) if not shard_path(folder, shard).exists()]
    done = total - sum(min(total, (shard + 1) * size) - shard * size for shard in missing)
    advance(done, total)
    for embedded in _embed_each(folder, missing, spec, embedder, workers):
        done += embedded
        advance(done, total)
    return count


def _embed_each(
    folder: Path,
    shards: Sequence[int],
    spec: IndexSpec,
    embedder: Embedder,
    workers: EmbedWorkers,
) -> Iterator[int]:
    if workers.cluster is None and (workers.count == 1 or len(shards) <= 1):
        yield from (embed_shard(folder, shard, spec, embedder) for shard in shards)
        return
    dask: Any = import_module("distributed")  # slow to import, and untyped

    with contextlib.ExitStack() as stack:
        address = workers.cluster
        if address is None:
            # Without a dashboard: its packages are not installed.
            cluster = dask.LocalCluster(
                n_workers=workers.count, threads_per_worker=1, dashboard_address=None
            )
            address = stack.enter_context(cluster)
        client = stack.enter_context(dask.Client(address))
        shared = client.scatter(embedder, broadcast=True)
        # Not pure: the result of a shard is its file, not its return value.
        jobs = [
            client.submit(embed_shard, folder, shard, spec, shared, pure=False) for shard in shards
        ]
        for job in dask.as_completed(jobs):
            yield job.result()


def join_shards(folder: Path, count: int, path: Path) -> None:
    """Write the vectors of all shards into one file, in order, completely or not at all."""
    if path.exists():
        return
    shapes = [np.load(shard_path(folder, shard), mmap_mode="r").shape for shard in range(count)]
    rows, dimensions = sum(shape[0] for shape in shapes), shapes[0][1]
    with replacing(path) as staging:
        joined = np.lib.format.open_memmap(
            staging, mode="w+", dtype=np.float32, shape=(rows, dimensions)
        )
        start = 0
        for shard, shape in enumerate(shapes):
            joined[start : start + shape[0]] = np.load(shard_path(folder, shard))
            start += shape[0]
        joined.flush()
        del joined


MANIFEST, VECTORS, LOCK = "manifest.json", "vectors.npy", "lock"
NOT_CONTENT = {"shard_documents"}  # fields of a spec that do not affect the content

Progress = Callable[[str, int, int], None]  # gets the stage (embed, add), documents done, total
Source = Callable[[], Iterator[Passage]]


def build_index(
    documents: Sequence[Document] | Sequence[Passage] | Path,
    catalog: Catalog,
    spec: IndexSpec | None = None,
    embedder: Embedder | None = None,
    workers: EmbedWorkers = ONE_WORKER,
    progress: Progress | None = None,
) -> Path:
    """Build an index of `documents` (or of a JSONL file of them) in the store; returns its folder.

    An existing index is reused. `embedder`: None fits the local one. Raises CorpusRefused,
    EmbedderFailed, StoreFull.
    """
    corpus, read = _open_corpus(documents)
    spec = spec or IndexSpec(template=STDLIB_TEMPLATE)
    described = {"kind": NAME} if embedder is None else embedder.describe()
    content = {"embedder": described, "spec": spec.model_dump(exclude=NOT_CONTENT)}
    index_id = artifact_id("index", content, [corpus])
    folder = catalog.home.artifact_folder(index_id)
    building = folder.with_name(f"{folder.name}.building")
    with cat.store_boundary(catalog.home), only_builder(building, folder):
        if not (folder / MANIFEST).is_file():
            show = progress or (lambda stage, done, total: None)
            manifest = {"index_id": index_id, "corpus_id": corpus} | content
            write_manifest(
                building, manifest | _built(building, read, spec, embedder, workers, show)
            )
            publish(building, folder)
    enter_index(catalog, folder)
    return folder


def _open_corpus(
    documents: Sequence[Document] | Sequence[Passage] | Path,
) -> tuple[str, Source]:
    """The corpus's artifact id, and a function that reads it from the start."""
    if documents and not isinstance(documents, Path) and isinstance(documents[0], Document):
        stdlib = cast(Sequence[Document], documents)
        return corpus_id(stdlib), partial(stdlib_passages, stdlib)
    if isinstance(documents, Path):
        source: Source = partial(read_jsonl, documents)
    else:
        source = partial(iter, cast(Sequence[Passage], documents))
    return artifact_id("corpus", {"passages": hash_passages(source())}), source


@contextlib.contextmanager
def only_builder(building: Path, folder: Path) -> Iterator[None]:
    """Wait until no other process builds this index; the lock ends with its process."""
    building.parent.mkdir(parents=True, exist_ok=True)
    path = building.with_name(f"{building.name}.{LOCK}")
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            if (folder / MANIFEST).is_file():
                path.unlink(missing_ok=True)  # a process that waited finds the index


def _built(
    folder: Path,
    read: Source,
    spec: IndexSpec,
    embedder: Embedder | None,
    workers: EmbedWorkers,
    progress: Progress,
) -> dict[str, Any]:
    """Run the missing steps; returns the manifest's entries on the content."""
    folder.mkdir(exist_ok=True)
    if not (folder / DOCUMENTS).exists():
        write_passages(read(), folder)
    store = PassageStore(folder)
    embedder = embedder or HashedNgrams.fit(map(spec.text, store))
    embedder.save(folder)
    path = folder / VECTORS
    if not path.exists():
        show = partial(progress, "embed")
        count = embed_all(folder, spec, embedder, show, workers)
        join_shards(folder, count, path)
    vectors = np.load(path, mmap_mode="r")
    write_ann(vectors, spec, folder, partial(progress, "add"))
    if spec.words:
        write_bm25((f"{p.title}\n{p.text}" for p in store), folder / bm25.FOLDER)
    rows, names = probe_names(store)
    queries = embedder.embed([spec.query_template.format(query=n) for n in names])
    ann = Ann.load(folder, spec, vectors)
    size = {"documents": len(store), "dimensions": vectors.shape[1]}
    return size | probe_recall(queries, rows, vectors, ann)


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    with replacing(folder / MANIFEST) as staging:
        staging.write_text(json.dumps(manifest, indent=1))


def publish(building: Path, folder: Path) -> None:
    shutil.rmtree(building / SHARDS, ignore_errors=True)
    if folder.exists():  # without a manifest: made by something else, or damaged
        shutil.rmtree(folder)
    os.replace(building, folder)


def enter_index(catalog: Catalog, folder: Path) -> None:
    """Add corpus and index to the catalog unless present: a crash may have come before."""
    manifest = json.loads((folder / MANIFEST).read_text())
    corpus, index_id = manifest["corpus_id"], manifest["index_id"]
    known = catalog.artifact(index_id)
    if known is not None and known["path"] is not None:
        return
    catalog.enter_artifact(corpus, {"documents": manifest["documents"]})
    catalog.enter_artifact(index_id, manifest, [corpus], folder)
