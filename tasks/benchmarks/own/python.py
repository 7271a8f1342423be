"""The user's own benchmark as a Python file with one class, a subclass of `OwnBenchmark`.

The file is run by its path, in the process of the user who names it, and is not sandboxed. It is
never imported by name, and its folder is not added to Python's path.
"""

import asyncio
import hashlib
import importlib.util
import json
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from tutti.tasks.benchmarks.benchmark import MEAN_SCORE, Benchmark, no_gold
from tutti.tasks.benchmarks.errors import BadBenchmarkFile, SourceMissing
from tutti.tasks.scoring import (
    SCORERS,
    Score,
    Scorer,
    ScorerFailed,
    ScoringResources,
    Submission,
)
from tutti.tasks.task_sets import ExcludedRow, Task

VERSION_CHARS = 12  # of the file's hash


class OwnBenchmark:
    """The base class of a benchmark in a Python file, which has one subclass of it. Set `scorer` to
    the name of one of tutti's scorers, or override `score`."""

    prompt: str = "plain"
    """A prompt's name, a YAML file beside the Python file, or a template: ``"Sort {words}."``. A
    suite's `data.prompt` replaces it."""
    scorer: str | None = None
    """A scorer's name. Its target's keys are in the docstring of its module in `tasks/scoring`."""

    graded: bool = False
    """Whether the mean of the scores is reported, rather than the share of answers that score 1."""

    def load(self, source: Path | None) -> Iterable[Task | ExcludedRow]:
        """Return the tasks in a fixed order. `source` is the suite's `data.source`."""
        raise NotImplementedError("the class has no method `load`")

    def score(self, target: Mapping[str, Any], answer: str) -> bool | float:
        """Score an answer: True or False, or 0 to 1, where only 1 counts as correct. `target` is
        the task's. It may be called from several threads at once."""
        raise NotImplementedError("the class has no method `score`")


class OwnScorer(Scorer):
    """Scores with a method of the user's own. Its version is the hash of the file."""

    def __init__(self, name: str, version: str, own: OwnBenchmark, path: Path) -> None:
        self.name, self.version = name, version
        self._own, self._path = own, path

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """Return the method's score; no answer is wrong. Raises ScorerFailed."""
        answer = submission.answer or submission.text
        if not answer:
            return Score(self.name, self.version, 0.0, False)
        try:
            value = await asyncio.to_thread(self._own.score, target, answer)
        except Exception as error:
            raise ScorerFailed(_flaw(self._path, "score", error)) from error
        if not isinstance(value, bool | int | float) or not 0 <= value <= 1:
            raise ScorerFailed(f"{self._path}: score: returned {value!r}, not 0 to 1 or a bool")
        return Score(self.name, self.version, float(value), value >= 1)


def python_benchmark(name: str, path: Path, source: Path | None = None) -> Benchmark:
    """Load the benchmark in `path`; `source` is passed to its `load`. Raises SourceMissing, and
    BadBenchmarkFile if the file cannot be used."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SourceMissing(
            f"benchmark: {path}: {error.strerror}; a relative path starts at the suite file's "
            "folder"
        ) from error
    own = _instance(path, content)
    has_method = type(own).score is not OwnBenchmark.score
    if has_method == (own.scorer is not None):
        given = "both" if has_method else "neither"
        raise BadBenchmarkFile(
            f"{path}: {type(own).__name__} needs `scorer` or a method `score`, and has {given}; "
            f"scorers: {', '.join(SCORERS)}"
        )
    if own.scorer is not None and own.scorer not in SCORERS:
        raise BadBenchmarkFile(f"{path}: no scorer {own.scorer!r}; there are {', '.join(SCORERS)}")
    version = hashlib.sha256(content).hexdigest()[:VERSION_CHARS]
    is_prompt_file = own.prompt.endswith((".yaml", ".yml")) and "{" not in own.prompt
    return Benchmark(
        name=name,
        read=lambda files: _tasks(own, path, source),
        splits={"test": ("*.py",)},
        scorer=own.scorer or name,
        prompt=str(path.parent / own.prompt) if is_prompt_file else own.prompt,
        gold=no_gold,
        licence="yours",
        own_scorer=OwnScorer(name, version, own, path) if has_method else None,
        file=path,
        reports=MEAN_SCORE if own.graded else None,
    )


def _tasks(own: OwnBenchmark, path: Path, source: Path | None) -> Iterator[Task | ExcludedRow]:
    try:
        for place, task in enumerate(own.load(source)):
            if not isinstance(task, ExcludedRow):
                _check(place, task, path)
            yield task
    except BadBenchmarkFile:
        raise
    except Exception as error:
        raise BadBenchmarkFile(_flaw(path, "load", error)) from error


def _check(place: int, task: Task, path: Path) -> None:
    if not isinstance(task, Task):
        raise BadBenchmarkFile(f"{path}: load: task {place} is {task!r:.80}, not a Task")
    texts = {"id": task.key, **task.inputs, **task.attributes}
    if wrong := [name for name, value in texts.items() if not isinstance(value, str)]:
        value = texts[wrong[0]]
        raise BadBenchmarkFile(f"{path}: task {task.key}: {wrong[0]}: {value!r:.80} is not text")
    try:
        json.dumps([dict(task.target), list(task.given), list(task.tools)])
    except (TypeError, ValueError) as error:
        raise BadBenchmarkFile(f"{path}: task {task.key}: target: {error}") from error


@lru_cache(maxsize=64)
def _instance(path: Path, content: bytes) -> OwnBenchmark:
    """The file's benchmark; the file is run once for each content. Raises BadBenchmarkFile."""
    module = _run(path, content)
    found = [
        each
        for each in vars(module).values()
        if isinstance(each, type)
        and issubclass(each, OwnBenchmark)
        and each.__module__ == module.__name__
    ]
    if len(set(found)) != 1:
        names = ", ".join(each.__name__ for each in found) or "none"
        raise BadBenchmarkFile(
            f"{path}: the file needs one class derived from tutti.tasks.benchmarks.OwnBenchmark; "
            f"it has {names}"
        )
    try:
        return found[0]()
    except Exception as error:
        raise BadBenchmarkFile(_flaw(path, found[0].__name__, error)) from error


def _run(path: Path, content: bytes) -> ModuleType:
    """Run the file as a module with a name that is never imported."""
    digest = hashlib.sha256(str(path.absolute()).encode() + content).hexdigest()
    spec = importlib.util.spec_from_loader(f"_tutti_own_{digest[:16]}", None, origin=str(path))
    assert spec is not None, "a spec without a loader is always made"
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        exec(compile(content, str(path), "exec"), vars(module))
    except SyntaxError as error:
        raise BadBenchmarkFile(f"{error.filename}:{error.lineno}: {error.msg}") from error
    except Exception as error:
        raise BadBenchmarkFile(_flaw(path, "", error)) from error
    return module


def _flaw(path: Path, step: str, error: Exception) -> str:
    """An error of the user's code in one line, with the last line of the file that led to it."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [each.lineno for each in frames if each.filename == str(path)]
    where = f"{path}:{lines[-1]}" if lines else str(path)
    return ": ".join(part for part in (where, step, f"{type(error).__name__}: {error}") if part)
