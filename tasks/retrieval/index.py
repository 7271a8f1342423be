"""Build, save, load and search a FAISS index over documents.

An index is an artifact: its id hashes the corpus id, the embedder, the text template and the FAISS
parameters. Its folder holds ``index.faiss``, ``documents.jsonl``, the embedder's weights and
``manifest.json`` with the recall probe.
"""

import json
import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import faiss
import numpy as np

from storage import Catalog, artifact_id
from storage import catalog as cat
from tasks.retrieval.corpus import Document, corpus_id
from tasks.retrieval.embedder import DIMENSIONS, NAME, HashedNgrams

TEMPLATE = "{name}\n{name}\n{text}"  # the name twice: it is what most queries are made of
PROBE_QUERIES = 500
PROBE_DEPTHS = (1, 2, 5, 10)
FAISS_PARAMETERS = {"kind": "Flat", "metric": "inner_product", "dimensions": DIMENSIONS}


@dataclass(frozen=True)
class Hit:
    """One search result."""

    document: Document
    score: float


class Index:
    """A loaded index; `search` is exact and may be called from several threads."""

    def __init__(self, folder: Path) -> None:
        self.manifest = read_manifest(folder)
        self.index_id: str = self.manifest["index_id"]
        lines = (folder / "documents.jsonl").read_text().splitlines()
        self.documents = [Document.from_row(json.loads(line)) for line in lines]
        self.embedder = HashedNgrams.load(folder)
        self.faiss = faiss.read_index(str(folder / "index.faiss"))

    def search(self, queries: list[str], k: int) -> list[list[Hit]]:
        """The `k` nearest documents of each query, best first."""
        scores, rows = self.faiss.search(self.embedder.embed(queries), k)
        return [
            [Hit(self.documents[i], float(s)) for i, s in zip(ids, row, strict=True) if i >= 0]
            for ids, row in zip(rows, scores, strict=True)
        ]


def read_manifest(folder: Path) -> dict[str, Any]:
    """What is in an index's folder: ids, parameters, recall. Raises FileNotFoundError."""
    file = folder / "manifest.json"
    if not file.is_file():
        raise FileNotFoundError(f"{folder} holds no index (manifest.json is missing)")
    manifest: dict[str, Any] = json.loads(file.read_text())
    return manifest


def build_index(documents: Sequence[Document], catalog: Catalog) -> Path:
    """Embed `documents` into an index under the store; returns its folder.

    An index that is there already is reused. The folder appears whole or not at all.
    """
    corpus = corpus_id(documents)
    content = {"embedder": NAME, "template": TEMPLATE, "faiss": FAISS_PARAMETERS}
    index_id = artifact_id("index", content, [corpus])
    known = catalog.artifact(index_id)
    if known is not None and known["path"] is not None and known["path"].is_dir():
        return Path(known["path"])
    folder = catalog.home.artifact_folder(index_id)
    staging = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}.tmp")
    try:
        with cat.store_boundary(catalog.home):
            staging.mkdir(parents=True)
            manifest = {"index_id": index_id, "corpus_id": corpus, "documents": len(documents)}
            manifest |= content | {"recall": _write_index(documents, staging)}
            (staging / "manifest.json").write_text(json.dumps(manifest, indent=1))
            if folder.exists():  # left by a crash between the rename and the catalog entry
                shutil.rmtree(folder)
            os.replace(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    catalog.enter_artifact(corpus, {"documents": len(documents)})
    catalog.enter_artifact(index_id, manifest, [corpus], folder)
    return folder


def _write_index(documents: Sequence[Document], folder: Path) -> dict[str, float]:
    texts = [TEMPLATE.format(name=d.name, text=d.text) for d in documents]
    embedder = HashedNgrams.fit(texts)
    index = faiss.IndexFlatIP(DIMENSIONS)
    index.add(embedder.embed(texts))
    faiss.write_index(index, str(folder / "index.faiss"))
    embedder.save(folder)
    rows = [json.dumps(document.as_row(), ensure_ascii=False) for document in documents]
    (folder / "documents.jsonl").write_text("\n".join(rows) + "\n")
    return _recall_probe(documents, embedder, index)


def _recall_probe(
    documents: Sequence[Document], embedder: HashedNgrams, index: Any
) -> dict[str, float]:
    """Recall@k of finding a document by its full name; 500 documents drawn by a fixed seed."""
    rows = Random(0).sample(range(len(documents)), min(PROBE_QUERIES, len(documents)))
    _, found = index.search(embedder.embed([documents[r].name for r in rows]), max(PROBE_DEPTHS))
    hits = np.array([[i == row for i in ids] for row, ids in zip(rows, found, strict=True)])
    return {f"recall_at_{k}": float(hits[:, :k].any(axis=1).mean()) for k in PROBE_DEPTHS}
