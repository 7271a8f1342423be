"""The parameters of an index: part of its id, and written into its manifest."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tutti.tasks.retrieval.passage import Passage

PLAIN_TEMPLATE = "{title}\n{text}"
# The title counts twice: for a standard-library document it is the full name, the basis of most
# queries.
STDLIB_TEMPLATE = "{title}\n{title}\n{text}"


class IndexSpec(BaseModel):
    """The parameters of an index. The defaults search exactly."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    kind: Literal["flat", "ivf", "hnsw"] = "flat"
    """flat: exact. ivf: scans the lists nearest to the query. hnsw: walks a graph."""
    lists: int = Field(default=0, ge=0)
    """ivf: inverted lists; 0 picks about 4 times the root of the number of documents."""
    probes: int = Field(default=8, ge=1)
    """ivf: lists scanned a query."""
    links: int = Field(default=32, ge=2)
    """hnsw: links of a node."""
    build_depth: int = Field(default=80, ge=8)
    """hnsw: candidates kept while building."""
    search_depth: int = Field(default=64, ge=1)
    """hnsw: candidates kept while searching."""
    words: bool = False
    """Also build BM25 posting lists, and fuse both rankings by default."""
    template: str = PLAIN_TEMPLATE
    """The embedded text of a document: ``{title}``, ``{text}``, ``{source}``."""
    query_template: str = "{query}"
    """The embedded text of a query: some models need an instruction before it."""
    shard_documents: int = Field(default=4_096, ge=1)
    """Documents embedded at a time: a crash loses at most this much of a worker's work."""

    def text(self, passage: Passage) -> str:
        return self.template.format(title=passage.title, text=passage.text, source=passage.source)
