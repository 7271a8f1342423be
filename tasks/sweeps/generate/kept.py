"""What an output folder holds: the settings of its files, and which samples were begun together.

In: a request. Out: the parts of it that are left to do. The file ``generate.json`` (of a chunk
``generate_chunk_{i}.json``) keeps the settings, so that replies of others are not mixed with them,
and each part's samples and sessions, which are part of the ids by which the store finds it again.
Chunks are merged once all are there, also those that other machines wrote: the settings are written
first and the chunks' are removed last, so a merge that is killed goes on where it was.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Any

from tutti.errors import UsageError
from tutti.tasks.agents.models import AUTO, OFF, separate
from tutti.tasks.sweeps.generate.request import GenerateRequest, done_file, lines_of, write_whole


@dataclass(frozen=True)
class Part:
    """Seeds that run as one cell."""

    first: int
    count: int
    concurrency: int

    @property
    def seeds(self) -> range:
        """The numbers of its samples."""
        return range(self.first, self.first + self.count)


@dataclass(frozen=True)
class WorkFolder:
    """An output folder and what is known of it."""

    path: Path
    """The file that keeps this."""
    settings: Mapping[str, Any] | None
    """None before the first run."""
    parts: tuple[Part, ...]
    """All, also those that are done."""
    left: tuple[Part, ...]
    """Those whose files are not all there."""
    dropped: tuple[Part, ...] = ()
    """Begun for more seeds than are now asked for: they begin anew."""

    def check(self, settings: Mapping[str, Any]) -> None:
        """Raises UsageError where the folder's replies have others of these settings."""
        if self.settings is not None and (changed := _changed(self.settings, settings)):
            before = self.settings["reasoning"]
            is_same = settings.get("reasoning", before) == before
            raise UsageError(
                f"{self.path} says that the replies there have other settings: {changed}; "
                "give another --out" + ("" if is_same else f", or --reasoning {quote(str(before))}")
            )

    def keep(self, settings: Mapping[str, Any]) -> None:
        """Write the file. Raises as `check`."""
        self.check(settings)
        write_settings(self.path, settings, [asdict(part) for part in self.parts])


def write_settings(path: Path, settings: Mapping[str, Any], parts: Sequence[Any] = ()) -> None:
    """Write a file that keeps settings. Raises as `write_whole`."""
    content = {"settings": settings, "parts": parts}
    write_whole(path, [json.dumps(content, indent=1, sort_keys=True)])


def settings_file(request: GenerateRequest, chunk: int | None) -> Path:
    """The file that keeps the settings of a chunk, or of the whole."""
    name = "generate" if chunk is None else f"generate_chunk_{chunk}"
    return request.out / f"{name}.json"


def open_work(request: GenerateRequest, concurrency: int) -> WorkFolder:
    """What is left to do in the request's folder. Raises UsageError."""
    path = settings_file(request, request.chunk)
    kept = read_settings(request, request.chunk)
    if not kept and (whole := read_settings(request, None)):  # of merged chunks
        kept = {"settings": whole["settings"], "parts": []}
    done = [seed for seed in request.seeds if is_done(request, seed)]
    if done and not kept:
        there = request.path_of(done[0], request.chunk)
        raise UsageError(
            f"{there} is there, and no {path.name} says what made it; give another --out"
        )
    begun = [Part(**part) for part in kept.get("parts", ())]
    return _planned(path, kept.get("settings"), begun, request, concurrency)


def is_done(request: GenerateRequest, seed: int) -> bool:
    """Whether a seed's file is there: whole, or the request's chunk of it."""
    places = [request.path_of(seed)]
    if request.chunk is not None:
        places.append(request.path_of(seed, request.chunk))
    return any(place.exists() for place in places)


def _planned(
    path: Path,
    settings: Mapping[str, Any] | None,
    begun: Sequence[Part],
    request: GenerateRequest,
    concurrency: int,
) -> WorkFolder:
    missing = {seed for seed in request.seeds if not is_done(request, seed)}
    wanted = set(request.seeds)
    kept, dropped, left = list[Part](), list[Part](), list[Part]()
    for part in begun:
        if not missing.intersection(part.seeds):
            kept.append(part)
        elif wanted.issuperset(part.seeds):
            kept.append(part)
            left.append(part)
        else:
            dropped.append(part)
    new = missing.difference(*(part.seeds for part in kept))
    runs = _runs_of(sorted(new))
    if request.solutions is not None:  # each seed draws other solutions: they are no one cell
        runs = [(seed, 1) for seed in sorted(new)]
    fresh = [Part(first, count, concurrency) for first, count in runs]
    return WorkFolder(path, settings, (*kept, *fresh), (*left, *fresh), tuple(dropped))


def _runs_of(seeds: Sequence[int]) -> list[tuple[int, int]]:
    """Numbers that follow each other, as (first, count)."""
    found: list[tuple[int, int]] = []
    for seed in seeds:
        if found and seed == sum(found[-1]):
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((seed, 1))
    return found


def read_settings(request: GenerateRequest, chunk: int | None) -> dict[str, Any]:
    """What the file says that keeps a chunk's settings, or the whole's; empty if there is none.

    Raises UsageError for a file that is not ours.
    """
    path = settings_file(request, chunk)
    try:
        kept = json.loads(path.read_text("utf-8"))
        [Part(**part) for part in kept["parts"]]
        settings = dict(kept["settings"])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise UsageError(f"{path}: was not written by `tutti generate`: {error}") from error
    if "reasoning" not in settings:  # of replies that were left whole, or split at a tag
        settings["reasoning"] = settings.pop("end_reasoning", None) or _reasoning_left(request)
    return {**kept, "settings": settings}


def _reasoning_left(request: GenerateRequest) -> str:
    """`auto` where it would have split none of the folder's replies, else `off`."""
    for path in request.out.glob("output*.jsonl"):
        with path.open("rb") as lines:
            if any(_would_split(line, request.key) for line in lines):
                return OFF
    return AUTO


def _would_split(line: bytes, key: str) -> bool:
    try:
        made = json.loads(line)
        return "reasoning_content" not in made and separate(made[key], AUTO) is not None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False  # no line of ours: `check_written` says so


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    names = sorted(name for name in now if before.get(name) != now[name])
    return ", ".join(f"{name} {before.get(name)!r}, now {now[name]!r}" for name in names)


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
