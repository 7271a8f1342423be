"""Merges the chunks of a seed's file once all are there, also those that other machines wrote.

In: a request. Out: ``output-rs{S}.jsonl``, and the chunks' files removed. The settings are written
first and the chunks' are removed last, so a merge that is killed goes on where it was.
"""

from itertools import chain
from pathlib import Path
from typing import Any

from tutti.errors import UsageError
from tutti.tasks.sweeps.generate.kept import read_settings, settings_file, write_settings
from tutti.tasks.sweeps.generate.request import GenerateRequest, done_file
from tutti.tasks.sweeps.generate.rows import write_whole
from tutti.tasks.sweeps.generate.written import lines_of


def merge_chunks(request: GenerateRequest, rows: int) -> tuple[list[Path], list[Path]]:
    """Merge every seed that has all its chunks; returns (files written, chunks that lack).

    Raises UsageError where a chunk is not of these rows, or chunks were made with other settings.
    """
    written, missing = list[Path](), list[Path]()
    for seed in request.seeds:
        whole = request.path_of(seed)
        parts = [request.path_of(seed, chunk) for chunk in range(request.chunks)]
        if not whole.exists():
            if lacking := [part for part in parts if not part.exists()]:
                missing += lacking
                continue
            written += _merged(request, seed, rows)
        for part in parts:
            part.unlink(missing_ok=True)
            done_file(part).unlink(missing_ok=True)
    if not missing:
        _merge_settings(request)  # of a merge that was killed before it had written them
        for chunk in range(request.chunks):
            settings_file(request, chunk).unlink(missing_ok=True)
    return written, missing


def _merged(request: GenerateRequest, seed: int, rows: int) -> list[Path]:
    """Write a seed's file; nothing where another machine has done so meanwhile."""
    whole = request.path_of(seed)
    _merge_settings(request)
    try:
        chunks = [lines_of(request, seed, chunk, rows) for chunk in range(request.chunks)]
        write_whole(whole, list(chain.from_iterable(chunks)))
    except FileNotFoundError:
        if whole.exists():
            return []
        raise
    return [whole]


def _merge_settings(request: GenerateRequest) -> None:
    """Write one file of settings beside the chunks'. Raises UsageError where these differ."""
    kept = [
        (settings_file(request, chunk), content)
        for chunk in (None, *range(request.chunks))
        if (content := read_settings(request, chunk))
    ]
    if not kept:
        return
    (first, content), *others = kept
    settings = _without_nulls(content)
    for path, other in others:
        of_other = _without_nulls(other)
        if of_other != settings:
            names = [n for n in {*settings, *of_other} if settings.get(n) != of_other.get(n)]
            raise UsageError(
                f"{path} and {first} have other settings, so their chunks are not merged: "
                + ", ".join(sorted(names))
            )
    write_settings(settings_file(request, None), content["settings"])


def _without_nulls(content: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content["settings"].items() if value is not None}
