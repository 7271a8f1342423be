"""Imports an index that another program built, without embedding again.

In: a FAISS file, the JSONL file of its documents in the same order, and the endpoint of the model
that embedded them. Out: an index of the store, whose vectors and documents stay where they are. A
sample of the documents is embedded again and compared with the stored vectors, so that another
model, another template or shifted rows are refused.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from tutti.storage import Catalog, artifact_id
from tutti.storage import catalog as cat
from tutti.tasks.retrieval.build import (
    MANIFEST,
    NOT_CONTENT,
    Progress,
    enter_index,
    only_builder,
    publish,
    write_manifest,
)
from tutti.tasks.retrieval.embedder import Embedder
from tutti.tasks.retrieval.errors import ImportRefused
from tutti.tasks.retrieval.foreign import (
    ForeignIndex,
    LinkedFile,
    Links,
    open_foreign,
    probe_in_child,
)
from tutti.tasks.retrieval.index import Index
from tutti.tasks.retrieval.passage import PassageStore, index_lines
from tutti.tasks.retrieval.probe import DEPTHS, probe_names
from tutti.tasks.retrieval.spec import IndexSpec

SAMPLED = 32
LEAST_OWN = 0.8  # the share of documents nearest to their own vectors: a cosine alone tells little
TIE = 1e-3  # half precision


@dataclass(frozen=True)
class ForeignFiles:
    """The files of an imported index."""

    vectors: Path
    documents: Path


def import_index(
    files: ForeignFiles, catalog: Catalog, spec: IndexSpec, embedder: Embedder, progress: Progress
) -> Path:
    """Enter another program's index into the store; returns its folder. `spec.kind` is the file's.

    The files are read once for their hashes, never copied, and must not change. Raises
    ImportRefused, CorpusRefused, EmbedderFailed, StoreFull.
    """
    probe_in_child(files.vectors)
    foreign = open_foreign(files.vectors)
    width = embedder.describe().get("dimensions", foreign.index.d)
    if width != foreign.index.d:
        raise ImportRefused(
            f"{files.vectors} has vectors of {foreign.index.d} dimensions, not {width}"
        )
    spec = spec.model_copy(update={"kind": foreign.kind, "words": False})
    links = Links(
        LinkedFile.of(files.vectors, partial(progress, "hash vectors")),
        LinkedFile.of(files.documents, partial(progress, "hash documents")),
    )
    content = {
        "embedder": embedder.describe(),
        "spec": spec.model_dump(exclude=NOT_CONTENT),
        "imported": {"vectors": links.vectors.sha256, "documents": links.documents.sha256},
    }
    index_id = artifact_id("index", content)
    folder = catalog.home.artifact_folder(index_id)
    building = folder.with_name(f"{folder.name}.building")
    with cat.store_boundary(catalog.home), only_builder(building, folder):
        if (folder / MANIFEST).is_file():
            links.save(folder)  # the same bytes, perhaps in another place
        else:
            building.mkdir(parents=True, exist_ok=True)
            corpus, facts = _checked(files, foreign, spec, embedder, building)
            links.save(building)
            embedder.save(building)
            manifest = {"index_id": index_id, "corpus_id": corpus} | content | facts
            write_manifest(building, manifest)
            progress("probe", 0, SAMPLED)
            write_manifest(building, manifest | _probed(Index(building, embedder)))
            publish(building, folder)
    enter_index(catalog, folder)
    return folder


def _checked(
    files: ForeignFiles, foreign: ForeignIndex, spec: IndexSpec, embedder: Embedder, folder: Path
) -> tuple[str, dict[str, Any]]:
    """The corpus's id and the manifest's facts. Raises ImportRefused if the files do not match."""
    count, hashed = index_lines(files.documents, folder)
    if count != foreign.index.ntotal:
        raise ImportRefused(
            f"{files.vectors} has {foreign.index.ntotal:,} vectors and {files.documents} "
            f"{count:,} documents; they must be the same documents in the same order"
        )
    store = PassageStore(folder, files.documents)
    rows = sorted(Random(0).sample(range(count), min(SAMPLED, count)))
    again = embedder.embed([spec.text(store[row]) for row in rows])
    facts: dict[str, Any] = {"documents": count, "dimensions": foreign.index.d}
    if foreign.vectors is not None:
        cosines = again @ foreign.vectors[np.array(rows)].T
        diagonal = np.diagonal(cosines)
        own = float((diagonal >= cosines.max(axis=1) - TIE).mean())
        cosine = float(np.median(diagonal))
        facts["sample"] = {"own": own, "cosine": cosine}
        if own < LEAST_OWN:
            raise ImportRefused(
                f"{files.vectors}: of {len(rows)} documents embedded again, {own:.0%} are nearest "
                f"to their own vectors (median cosine {cosine:.2f}): another model, another "
                f"template than {spec.template!r}, or rows in another order"
            )
    return artifact_id("corpus", {"passages": hashed}), facts


def _probed(index: Index) -> dict[str, Any]:
    """Return how often a search for a document's name returns it. The loss of an approximate index
    is not measured by exact search, which over 100 GB would take longer than everything else."""
    rows, names = probe_names(index.documents)
    rows, names = rows[:SAMPLED], names[:SAMPLED]
    hits = index.search(names, min(max(DEPTHS), len(index.documents)))
    found = [[hit.row == row for hit in best] for row, best in zip(rows, hits, strict=True)]
    share = {f"recall_at_{k}": sum(any(own[:k]) for own in found) / len(found) for k in DEPTHS}
    return {"recall": share, "probe": {"queries": len(rows)}}
