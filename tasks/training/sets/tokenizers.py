"""Whether recorded ids are the base's: of the same tokens, by the tokenizers of both models.

Ids of another vocabulary would be trained as other words, and nothing would look wrong.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tutti.storage import Catalog, content_hash
from tutti.storage import catalog as cat

FILE = "tokenizer.json"


def vocabulary_of(folder: Path) -> str | None:
    """The hash of a model's tokens: vocabulary, merges and added tokens, however the file is
    written. None where there is no tokenizer.json."""
    file = folder / FILE
    if not file.is_file():
        return None
    known = json.loads(file.read_text(encoding="utf-8"))
    model: Mapping[str, Any] = known.get("model", {})
    added = sorted((each["id"], each["content"]) for each in known.get("added_tokens", ()))
    vocabulary = model.get("vocab")
    named = {"vocab": vocabulary, "merges": [_merge(each) for each in model.get("merges", ())]}
    return content_hash([model.get("type"), named, added])


def foreign_engines(
    engine_ids: Iterable[str | None], base: Path, catalog: Catalog
) -> dict[str, bool | None]:
    """Of each engine whether its tokens are others than the base's; None where that is unknown:
    an endpoint that others serve, or a model whose folder is gone."""
    own = vocabulary_of(base)
    found: dict[str, bool | None] = {}
    for engine_id in {each for each in engine_ids if each is not None}:
        theirs = [vocabulary_of(folder) for folder in _folders(engine_id, catalog)]
        known = [each for each in theirs if each is not None]
        found[engine_id] = None if own is None or not known else own not in known
    return found


def _merge(each: Any) -> str:
    """A merge as text: files of older versions have it so, newer ones as a pair."""
    return each if isinstance(each, str) else " ".join(each)


def _folders(engine_id: str, catalog: Catalog) -> list[Path]:
    """Where the models that an engine serves lie."""
    parents = cat.artifact_parents.c
    rows = catalog.rows(sa.select(parents.parent_id).where(parents.artifact_id == engine_id))
    folders = []
    for row in rows:
        known = catalog.artifact(row["parent_id"])
        folder = None if known is None else known["detail"].get("folder")
        if folder is not None:
            folders.append(Path(folder))
    return folders
