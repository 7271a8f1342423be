"""The flow `build-index`: an index over documents, with its recall probe.

Run: ``tutti index [FOLDER]``, or from the Prefect UI. An index that exists is reused; a build that
was interrupted continues where it stopped.
"""

import asyncio
from pathlib import Path
from typing import Any, Literal

from prefect import flow
from pydantic import BaseModel, ConfigDict, Field, model_validator

from tutti.storage import Catalog
from tutti.tasks.progress import StageProgress, leave_page, stage
from tutti.tasks.retrieval import (
    STDLIB_TEMPLATE,
    EmbedderFailed,
    EmbedWorkers,
    EndpointEmbedder,
    IndexSpec,
    load_stdlib_corpus,
    manifest_page,
    open_documents,
    read_manifest,
)
from tutti.tasks.retrieval import build_index as build
from tutti.tasks.runs import open_run

STDLIB_CORPUS = "stdlib"


class IndexParameters(BaseModel):
    """What to index, and how."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    corpus: str = Field(
        STDLIB_CORPUS,
        min_length=1,
        description="a folder or file of documents (markdown, text, HTML, PDF), or a JSONL file "
        "with id, text, title; `stdlib` is the documentation of Python's standard library",
    )
    kind: Literal["flat", "ivf", "hnsw"] = Field(
        "flat",
        description="flat searches exactly; ivf searches the nearest lists of vectors; hnsw "
        "searches a graph",
    )
    words: bool = Field(False, description="also build BM25, and fuse both rankings")
    workers: int = Field(1, ge=1, description="processes that embed; more than one run under Dask")
    cluster: str = Field("", description="address of a running Dask scheduler, if there is one")
    embed_url: str = Field(
        "",
        description="an OpenAI-compatible endpoint that ends in /v1; if empty, the local embedder "
        "is used",
    )
    embed_model: str = Field("", description="the endpoint's embedding model")
    embed_dimensions: int = Field(0, ge=0, description="the width of its vectors")

    @model_validator(mode="after")
    def _whole_endpoint(self) -> "IndexParameters":
        given = (self.embed_url, self.embed_model, self.embed_dimensions)
        if any(given) and not all(given):
            raise ValueError("give embed_url, embed_model and embed_dimensions, or none of them")
        return self

    @property
    def spec(self) -> IndexSpec:
        """What the index is made with."""
        spec = IndexSpec(kind=self.kind, words=self.words)
        if self.corpus != STDLIB_CORPUS:
            return spec
        return spec.model_copy(update={"template": STDLIB_TEMPLATE})

    @property
    def embedder(self) -> EndpointEmbedder | None:
        """The endpoint's; None is the local one."""
        if not self.embed_url:
            return None
        return EndpointEmbedder(self.embed_url, self.embed_model, self.embed_dimensions)


DEFAULT_INDEX = IndexParameters()


@flow(name="build-index")
async def build_index(parameters: IndexParameters = DEFAULT_INDEX) -> dict[str, Any]:
    """Build an index, or find it if it was built before.

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
    """Build the index in a thread; returns its folder."""

    def show(step: str, done: int, total: int) -> None:
        progress.show(done, total, step)

    def tell(line: str) -> None:
        progress.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def work() -> Path:
        corpus = parameters.corpus
        stdlib = corpus == STDLIB_CORPUS
        documents = load_stdlib_corpus() if stdlib else open_documents(Path(corpus), tell)
        workers = EmbedWorkers(parameters.workers, parameters.cluster or None)
        return build(documents, catalog, parameters.spec, parameters.embedder, workers, show)

    return await asyncio.to_thread(work)
