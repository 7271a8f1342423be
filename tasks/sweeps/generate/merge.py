"""Merges the chunks of a seed's file once all are there, also those that other machines wrote.

In: a request. Out: ``output-rs{S}.jsonl``, and the chunks' files removed.
"""

import contextlib
import json
from pathlib import Path
from typing import Any

from tutti.errors import UsageError
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
        if whole.exists():
            continue
        parts = [request.path_of(seed, chunk) for chunk in range(request.chunks)]
        if lacking := [part for part in parts if not part.exists()]:
            missing += lacking
            continue
        try:
            _check_settings(request)
            lines = [
                line
                for chunk in range(request.chunks)
                for line in lines_of(request, seed, chunk, rows)
            ]
        except FileNotFoundError:
            if whole.exists():  # another machine has merged them meanwhile
                continue
            raise
        write_whole(whole, lines)
        written.append(whole)
        for part in parts:
            part.unlink(missing_ok=True)
            done_file(part).unlink(missing_ok=True)
    if written and not missing:
        _keep_settings(request)
    return written, missing


def _kept(request: GenerateRequest) -> list[Path]:
    every = (request.out / f"generate_chunk_{chunk}.json" for chunk in range(request.chunks))
    return [path for path in every if path.exists()]


def _check_settings(request: GenerateRequest) -> None:
    first: tuple[Path, Any] | None = None
    for path in _kept(request):
        settings = json.loads(path.read_text("utf-8"))["settings"]
        settings = {name: value for name, value in settings.items() if value is not None}
        if first is not None and settings != first[1]:
            names = [n for n in {*settings, *first[1]} if settings.get(n) != first[1].get(n)]
            raise UsageError(
                f"{path} and {first[0]} have other settings, so their chunks are not merged: "
                + ", ".join(sorted(names))
            )
        first = first or (path, settings)


def _keep_settings(request: GenerateRequest) -> None:
    """One file of settings in place of the chunks'."""
    kept = _kept(request)
    if not kept:
        return
    with contextlib.suppress(FileNotFoundError):  # another machine does the same
        settings = json.loads(kept[0].read_text("utf-8"))["settings"]
        content = {"settings": settings, "parts": []}
        text = json.dumps(content, indent=1, sort_keys=True)
        write_whole(request.out / "generate.json", [text])
    for path in kept:
        path.unlink(missing_ok=True)
