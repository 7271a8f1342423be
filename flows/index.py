"""The flow `build-index`: an index over documents, with its recall probe.

Run: ``tutti index [FOLDER]``, or from the Prefect UI. An existing index is reused; an interrupted
build continues where it stopped.
"""

import asyncio
from pathlib import Path
from typing import Any

from prefect import flow

from tutti.flows.index_parameters import DEFAULT_INDEX, STDLIB_CORPUS, IndexParameters
from tutti.storage import Catalog
from tutti.tasks.platform.progress import StageProgress, leave_page, open_run, stage
from tutti.tasks.retrieval import (
    EmbedderFailed,
    EmbedWorkers,
    ForeignFiles,
    import_index,
    load_stdlib_corpus,
    manifest_page,
    open_documents,
    read_manifest,
)
from tutti.tasks.retrieval import build_index as build


@flow(name="build-index")
async def build_index(parameters: IndexParameters = DEFAULT_INDEX) -> dict[str, Any]:
    """Build an index, or reuse an existing one.

    Args:
       parameters: The corpus, the kind of index and the embedder.

    Returns the index's manifest and its folder.
    """
    with open_run("build-index", parameters.model_dump(mode="json")) as run:
        folder = await embed_and_build(run.log, parameters, run.catalog)
        manifest = read_manifest(folder)
        await leave_page(manifest_page(manifest, folder), "manifest", manifest["index_id"])
    return {**manifest, "folder": str(folder)}


# Embedded shards are kept: a retry after a failed embedder continues with the next one.
@stage(name="index", retries=2, retry_delay_s=10.0, retry_on=(EmbedderFailed,), tags=("embedder",))
async def embed_and_build(
    progress: StageProgress, parameters: IndexParameters, catalog: Catalog
) -> Path:
    """Build the index in a thread; return its folder."""

    def show(step: str, done: int, total: int) -> None:
        progress.show(done, total, step)

    def tell(line: str) -> None:
        progress.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def work() -> Path:
        corpus, embedder = parameters.corpus, parameters.embedder
        if parameters.faiss and embedder is not None:
            files = ForeignFiles(Path(parameters.faiss), Path(corpus))
            return import_index(files, catalog, parameters.spec, embedder, show)
        stdlib = corpus == STDLIB_CORPUS
        documents = load_stdlib_corpus() if stdlib else open_documents(Path(corpus), tell)
        workers = EmbedWorkers(parameters.workers, parameters.cluster or None)
        return build(documents, catalog, parameters.spec, embedder, workers, show)

    return await asyncio.to_thread(work)
