"""Content-hash ids: the same content and the same parents give the same artifact id.

In: plain JSON-able content. Out: ids of the form ``kind:sha256[:16]``.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

ID_HEX_DIGITS = 16  # the contract's width: 64 bits, no collision below billions of artifacts


def canonical_json(content: Any) -> bytes:
    """Serialise `content` so that equal values give equal bytes (sorted keys, no spaces, UTF-8).
    Raises TypeError for values without a JSON form, and ValueError for NaN and infinities."""
    return json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def content_hash(content: Any) -> str:
    """The first 16 hex digits of the SHA-256 of `content`'s canonical JSON (or of raw bytes)."""
    data = content if isinstance(content, bytes) else canonical_json(content)
    return hashlib.sha256(data).hexdigest()[:ID_HEX_DIGITS]


def artifact_id(kind: str, content: Any, parents: Iterable[str] = ()) -> str:
    """Id of an artifact: its kind, and a hash over its content and its parents' ids (as a set)."""
    return f"{kind}:{content_hash({'content': content, 'parents': sorted(set(parents))})}"
