"""An index's manifest for people: lines for the terminal, markdown for a flow run's artifacts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def recall_line(manifest: Mapping[str, Any]) -> str:
    """``@1 0.912, @10 0.994``: how often a document is found by its own name."""
    recall = manifest["recall"].items()
    return ", ".join(f"@{name.rsplit('_', 1)[1]} {value:.3f}" for name, value in recall)


def manifest_page(manifest: Mapping[str, Any], folder: Path) -> str:
    """The manifest as a markdown table, and the command that serves the index."""
    spec = manifest["spec"]
    rows = {
        "index": f"`{manifest['index_id']}`",
        "corpus": f"`{manifest['corpus_id']}`",
        "documents": f"{manifest['documents']:,}",
        "kind": spec["kind"] + (" and BM25" if spec["words"] else ""),
        "embedder": ", ".join(f"{key} {value}" for key, value in manifest["embedder"].items()),
        "dimensions": manifest["dimensions"],
        "recall by a document's own name": recall_line(manifest),
        "folder": f"`{folder}`",
    }
    table = [f"| {name} | {value} |" for name, value in rows.items()]
    command = f"python -m tutti.tasks.retrieval.service --index {folder} --port 8100"
    return "\n".join(["| | |", "|---|---|", *table, "", "Serve it:", "", f"    {command}"])
