"""The parameters of the flow `build-index`, which are the fields of its form.

In: a corpus, a kind of index, an embedder. Out: `IndexParameters`, checked.
"""

from typing import Literal

from pydantic import Field, model_validator

from tutti.tasks.platform import Strict
from tutti.tasks.retrieval import STDLIB_TEMPLATE, EndpointEmbedder, IndexSpec

STDLIB_CORPUS = "stdlib"
IMPORTED_TEMPLATE = "{text}"


class IndexParameters(Strict):
    """The corpus and settings of an index."""

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
    faiss: str = Field(
        "",
        description="a FAISS index of the corpus, a JSONL file in the same order, that another "
        "program built: it is used where it lies, and nothing is embedded again",
    )
    template: str = Field(
        "", description="the text of a document that is embedded: {title}, {text}, {source}"
    )
    query_template: str = Field(
        "{query}",
        pattern=r"\{query\}",
        description="the text of a query that is embedded; some models need an instruction",
    )

    @model_validator(mode="after")
    def _whole_endpoint(self) -> "IndexParameters":
        given = (self.embed_url, self.embed_model, self.embed_dimensions)
        if any(given) and not all(given):
            raise ValueError("give embed_url, embed_model and embed_dimensions, or none of them")
        if self.faiss and not (all(given) and self.corpus.endswith(".jsonl")):
            raise ValueError(
                "faiss needs its documents as a .jsonl file, and embed_url, embed_model and "
                "embed_dimensions of the model that made its vectors"
            )
        if self.faiss and self.words:
            raise ValueError("an imported index has no BM25: leave words out")
        return self

    @property
    def spec(self) -> IndexSpec:
        """The index's settings for its id."""
        spec = IndexSpec(kind=self.kind, words=self.words, query_template=self.query_template)
        template = STDLIB_TEMPLATE if self.corpus == STDLIB_CORPUS else IMPORTED_TEMPLATE
        if self.template or self.faiss or self.corpus == STDLIB_CORPUS:
            return spec.model_copy(update={"template": self.template or template})
        return spec

    @property
    def embedder(self) -> EndpointEmbedder | None:
        """The endpoint's embedder; None for the local one."""
        if not self.embed_url:
            return None
        return EndpointEmbedder(self.embed_url, self.embed_model, self.embed_dimensions)


DEFAULT_INDEX = IndexParameters()
