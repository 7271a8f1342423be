"""The state of an output folder: the settings of its files, and which samples started together.

In: a request. Out: its remaining parts, with the suite of each: one cell, whose samples are rows at
seeds. ``generate.json`` (``generate_chunk_{i}.json``) has the settings, so that replies of other
settings are not mixed with them, and each part's samples and sessions, which are part of its ids in
the store. A merge of chunks writes the settings first and removes the chunks last, so that a killed
merge can resume.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Any, cast

from tutti.errors import UsageError
from tutti.tasks.agents.models import AUTO, OFF
from tutti.tasks.benchmarks import load_prompt
from tutti.tasks.scoring import UNSCORED
from tutti.tasks.serving.served import is_url, short_name
from tutti.tasks.sweeps.from_flags import KeptSweep, RunSettings, keep_sweep
from tutti.tasks.sweeps.generate.check import CheckedFile
from tutti.tasks.sweeps.generate.request import (
    SEEDED_TEMPERATURE,
    GenerateRequest,
    done_file,
    lines_of,
    write_whole,
)
from tutti.tasks.sweeps.spec import AXIS, RUN, Suite, marks_of


@dataclass(frozen=True)
class Part:
    """Seeds that run as one cell."""

    first: int
    count: int
    concurrency: int

    @property
    def seeds(self) -> range:
        return range(self.first, self.first + self.count)


@dataclass(frozen=True)
class WorkFolder:
    """An output folder: its settings and its parts."""

    path: Path
    settings: Mapping[str, Any] | None
    """None before the first run."""
    parts: tuple[Part, ...]
    left: tuple[Part, ...]
    dropped: tuple[Part, ...]
    """Begun for more seeds than are now requested: they begin anew."""

    def check(self, settings: Mapping[str, Any]) -> None:
        """Raise UsageError if the folder's replies have other values of these settings."""
        before = settings if self.settings is None else self.settings
        names = sorted(name for name in settings if before.get(name) != settings[name])
        if names:
            raise UsageError(
                f"{self.path} says that the replies there have other settings: "
                + ", ".join(
                    f"{name} {before.get(name)!r}, now {settings[name]!r}" for name in names
                )
                + "; give another --out"
            )

    def write(self, settings: Mapping[str, Any]) -> None:
        self.check(settings)
        _write_settings(self.path, settings, [asdict(part) for part in self.parts])


def open_work(request: GenerateRequest, concurrency: int) -> WorkFolder:
    """Return the remaining work in the request's folder. Raises UsageError."""
    path = _settings_file(request, request.chunk)
    stored = _read_settings(path)
    if not stored and (whole := _read_settings(_settings_file(request, None))):  # of merged chunks
        stored = {"settings": whole["settings"], "parts": []}
    missing = {seed for seed in request.seeds if not request.is_done(seed)}
    if not stored and (done := [seed for seed in request.seeds if seed not in missing]):
        there = request.path_of(done[0], request.chunk)
        raise UsageError(f"{there} exists, and no {path.name} describes it; give another --out")
    begun = [Part(**part) for part in stored.get("parts", ())]
    unfinished = [part for part in begun if missing.intersection(part.seeds)]
    left = [part for part in unfinished if set(request.seeds).issuperset(part.seeds)]
    dropped = [part for part in unfinished if part not in left]
    new = sorted(missing.difference(*(part.seeds for part in left)))
    # Seeds that follow each other run as one cell; with solutions each seed draws others.
    runs = groupby(enumerate(new), lambda pair: pair[1] - pair[0])
    series = [[seed for _, seed in run] for _, run in runs]
    if request.solutions is not None:
        series = [[seed] for seed in new]
    fresh = [Part(seeds[0], len(seeds), concurrency) for seeds in series]
    parts = [part for part in begun if part not in dropped]
    return WorkFolder(
        path, stored.get("settings"), (*parts, *fresh), (*left, *fresh), tuple(dropped)
    )


def _settings_file(request: GenerateRequest, chunk: int | None) -> Path:
    return request.out / ("generate.json" if chunk is None else f"generate_chunk_{chunk}.json")


def _write_settings(path: Path, settings: Mapping[str, Any], parts: Sequence[Any] = ()) -> None:
    content = {"settings": settings, "parts": parts}
    write_whole(path, [json.dumps(content, indent=1, sort_keys=True)])


def _read_settings(path: Path) -> dict[str, Any]:
    """The file's content; empty if there is none. Raises UsageError for another program's file."""
    try:
        stored: dict[str, Any] = json.loads(path.read_text("utf-8"))
        [Part(**part) for part in stored["parts"]]
        return {**stored, "settings": dict(stored["settings"])}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise UsageError(f"{path}: was not written by `tutti generate`: {error}") from error


def merge_chunks(request: GenerateRequest, rows: int) -> tuple[list[Path], list[Path]]:
    """Merge every seed that has all its chunks; return (files written, missing chunks).

    Raises UsageError if a chunk is not of these rows, or the chunks have different settings.
    """
    written, missing = list[Path](), list[Path]()
    for seed in request.seeds:
        whole = request.path_of(seed)
        chunks = [request.path_of(seed, chunk) for chunk in range(request.chunks)]
        if not whole.exists():
            if lacking := [chunk for chunk in chunks if not chunk.exists()]:
                missing += lacking
                continue
            written += _merge(request, seed, rows)
        for path in chunks:
            path.unlink(missing_ok=True)
            done_file(path).unlink(missing_ok=True)
    if not missing:
        _merge_settings(request)  # of a merge that was killed before it had written them
        for chunk in range(request.chunks):
            _settings_file(request, chunk).unlink(missing_ok=True)
    return written, missing


def _merge(request: GenerateRequest, seed: int, rows: int) -> list[Path]:
    """Write a seed's file, unless another machine has done so meanwhile."""
    whole = request.path_of(seed)
    _merge_settings(request)
    lines = (lines_of(request, seed, chunk, rows) for chunk in range(request.chunks))
    try:
        write_whole(whole, list(chain.from_iterable(lines)))
    except FileNotFoundError:
        if not whole.exists():
            raise
        return []
    return [whole]


def _merge_settings(request: GenerateRequest) -> None:
    paths = [_settings_file(request, chunk) for chunk in (None, *range(request.chunks))]
    stored = {path: content["settings"] for path in paths if (content := _read_settings(path))}
    if not stored:
        return
    first, settings = next(iter(stored.items()))
    for path, other in stored.items():
        if other != settings:
            names = [n for n in {*settings, *other} if settings.get(n) != other.get(n)]
            raise UsageError(
                f"{path} and {first} have other settings, so their chunks are not merged: "
                + ", ".join(sorted(names))
            )
    _write_settings(paths[0], settings)


OF_THE_WORK = frozenset(("name", "benchmark", "where", "trials", "first_trial"))
"""Fields of a suite that say which rows and samples, and not what a reply is."""
GIVEN = ("temperature", "max_tokens", "max_turns", "question_field", "python", "mcp")


async def suite_of_part(request: GenerateRequest, part: Part, rows: int) -> KeptSweep:
    """Write the suite of a part, as `tutti run` does. Raises as `keep_sweep`."""
    assert request.model is not None, "a request that generates names a model"
    where = request.settings.get("where")
    if request.chunk is not None or request.limit is not None:
        chosen = request.row_numbers(rows)
        some = f"id::bigint >= {chosen.start} and id::bigint < {chosen.stop}"
        where = f"({where}) and {some}" if where else some
    model = request.model.rpartition("://")[2]
    name = request.settings.get("name") or short_name(f"generate-{request.file.stem}-{model}")
    name += f"-rs{part.first}" if part.first else ""
    name += "" if request.chunk is None else f"-chunk-{request.chunk}-of-{request.chunks}"
    settings: dict[str, Any] = {
        **request.settings,
        "name": name,
        "scorer": UNSCORED.name,
        "trials": part.count,
        "first_trial": part.first or None,
        "concurrency": (part.concurrency,),
        "policies": ("passthrough",),
        "where": where,
    }
    if request.reasoning not in (AUTO, OFF):
        settings["reasoning"] = OFF  # lines split the reply: only the whole one has its end tag
    if settings.get("temperature") is None and request.samples is not None:
        settings["temperature"] = SEEDED_TEMPERATURE
    prompt = settings.get("prompt")
    if prompt is not None and "{" not in prompt and Path(prompt).is_file():
        settings["prompt"] = str(Path(prompt).resolve())  # the suite is run from any folder
    file = str(request.file.resolve())
    return await keep_sweep(file, request.model, cast(RunSettings, settings))


def settings_of(suite: Suite, request: GenerateRequest, checked: CheckedFile) -> dict[str, Any]:
    """The settings that the request's replies and lines depend on, besides rows and seeds."""
    marks = marks_of(Suite)
    settings = {
        name: value
        for name, value in suite.given_fields().items()
        if marks[name] not in (AXIS, RUN) and name not in OF_THE_WORK
    }
    if suite.data.prompt is not None:
        settings["prompt"] = load_prompt(suite.data.prompt).prompt_id
    normal: dict[str, Any] = json.loads(json.dumps(settings))
    return normal | {"model": suite.model} | given_settings(request, checked)


def given_settings(request: GenerateRequest, checked: CheckedFile) -> dict[str, Any]:
    """Return the settings of `settings_of` that are known without the model."""
    settings: dict[str, Any] = {
        "rows_and_prompt": checked.content,
        "rows": len(checked.task_ids),
        "key": request.key,
        "times": request.times,
        "seeds": request.samples is not None,
        "reasoning": request.reasoning,
    }
    if request.model is not None and not is_url(request.model):
        settings["model"] = request.model
    if request.solutions is not None:
        settings |= {"combine": request.solutions.combine, "window": request.solutions.window}
    flags = {name: request.settings.get(name) for name in GIVEN}
    return settings | {name: value for name, value in flags.items() if value is not None}
