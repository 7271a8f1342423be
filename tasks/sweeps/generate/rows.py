"""Lines of files: the rows of a request, which of them one chunk has, and whole files written."""

import errno
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from tutti.errors import UsageError
from tutti.tasks.benchmarks import Source
from tutti.tasks.sweeps.generate.request import GenerateRequest


def row_numbers(request: GenerateRequest, rows: int) -> range:
    """The rows that the request's file holds, of `rows`."""
    return range(rows) if request.chunk is None else request.rows_of(request.chunk, rows)


def rows_in(request: GenerateRequest, chosen: range) -> Iterator[Mapping[str, Any]]:
    """Some rows of the file, as they are there. Raises BadRow."""
    rows = Source(request.file).files(request.file.name, None, ("*.jsonl",)).rows()
    return (row.data for row in islice(rows, chosen.start, chosen.stop))


def write_whole(path: Path, lines: Iterable[str]) -> None:
    """Write a file so that it is whole or not there.

    Raises UsageError where there can be no such file, OSError for a full disk.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        unfinished.replace(path)
    except OSError as error:
        error.filename = str(path)  # a failed write has no name
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            unfinished.unlink(missing_ok=True)
            raise
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
