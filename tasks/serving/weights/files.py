"""Files of a checkpoint: opened or refused with what to do."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from tutti.tasks.serving.errors import WeightsError

SMALL_BYTES = 50_000_000


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader]:
    """`path`, open for reading. Raises WeightsError where it is missing or cannot be read."""
    require_file(path)
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read: {error.strerror}") from None


def require_file(path: Path) -> None:
    """Raises WeightsError where there is no file, or only a link to one that is gone."""
    if path.is_file():
        return
    if path.is_symlink():
        raise WeightsError(
            f"{path}: a link to {os.readlink(path)}, which is not there: the download did not end, "
            "or the cache was cleaned; fetch the model again"
        )
    raise WeightsError(f"{path}: no such file; copy or fetch the checkpoint again")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises WeightsError where it is missing or invalid."""
    with opened(path) as file:
        data = file.read()
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise WeightsError(f"{path}: invalid JSON ({error}); fetch the file again") from None
    if not isinstance(found, dict):
        raise WeightsError(f"{path}: a JSON object is expected; fetch the file again")
    return found


def in_gb(size: int) -> str:
    """A size in GB (10^9 bytes), or in MB where it is small."""
    return f"{size / 1e9:.1f} GB" if abs(size) >= SMALL_BYTES else f"{size / 1e6:.1f} MB"
