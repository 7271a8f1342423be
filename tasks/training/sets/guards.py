"""Guards of a training set: no attempt of a held-out task, no copy of a held-out text, no ids of
another tokenizer.

Held-out texts are the questions of tasks in splits that may not be trained on, and the user's own
files (`leaks`).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tutti.storage import COUNTED, Catalog, Home, content_hash, query
from tutti.tasks.leaks import LeakIndex, own_texts, texts_of_sets
from tutti.tasks.retrieval import Embedder, EndpointEmbedder
from tutti.tasks.training.jobs.job import TrainingData

TASKS = "select task_set_id, task_id, split, question from tasks"
REASONS = {
    "same": "question of a held-out task",
    "words": "question of a held-out task",
    "near": "question near a held-out one",
    "reworded": "held-out question reworded",
}


@dataclass(frozen=True)
class HeldOut:
    """The tasks and texts that nothing may be trained on."""

    tasks: Sequence[Mapping[str, Any]]
    allowed: frozenset[str]
    own: Sequence[str] = ()
    """Texts of the user's own files."""
    embedder: Embedder | None = None
    least: float | None = None
    """Least cosine of one text to another, for it to be that reworded; None: the guard's own."""

    @classmethod
    def of(cls, home: Home, splits: Iterable[str] = ("train",)) -> "HeldOut":
        """Return the held-out tasks of a store, given the splits that may be trained on, without an
        embedder. Raises UsageError."""
        return cls(query(TASKS, home), frozenset(splits), own_texts(home))

    @classmethod
    def asked_by(cls, data: TrainingData, home: Home) -> "HeldOut":
        """Return the held-out tasks and texts for a job, with its embedder. Raises UsageError."""
        given = data.embedder
        embedder = EndpointEmbedder(given.url, given.model, given.dimensions) if given else None
        held = cls.of(home, data.splits)
        return replace(held, embedder=embedder, least=data.near_held_out)

    @cached_property
    def splits(self) -> Mapping[str, set[str]]:
        """The splits of each task; a task that is absent is in no task set."""
        splits: dict[str, set[str]] = {}
        for row in self.tasks:
            splits.setdefault(row["task_id"], set()).add(row["split"])
        return splits

    @cached_property
    def index(self) -> LeakIndex:
        """The index of the held-out texts."""
        held = (row for row in self.tasks if row["split"] not in self.allowed)
        return LeakIndex([*texts_of_sets(held), *self.own])

    @property
    def guards(self) -> dict[str, str]:
        """The guards, and whether each one ran."""
        by = "not run: no data.embedder" if self.embedder is None else str(self.embedder.describe())
        return {"copies": f"run: {len(self.index.texts)} held-out texts", "rewordings": by}

    def of_attempts(
        self, attempts: Iterable[Mapping[str, Any]], said: Mapping[str, Sequence[str]]
    ) -> dict[str, str]:
        """Return the attempts to leave out, and the reason. `said` has the texts of attempts whose
        task is in no task set, which are all compared; of other attempts the task's question is
        compared."""
        reasons, texts = {}, {}
        questions = {row["task_id"]: row["question"] or "" for row in self.tasks}
        for row in attempts:
            name, splits = row["attempt_id"], self.splits.get(row["task_id"], set())
            if row["status"] not in COUNTED and not row["is_repaired"]:
                reasons[name] = f"status {row['status']}"
            elif name in said:
                texts[name] = said[name]
            elif not splits:
                reasons[name] = "task of no known split"
            elif other := splits - self.allowed:
                reasons[name] = f"held-out split {min(other)}"
            else:
                texts[name] = [questions[row["task_id"]]]
        return reasons | self.of_texts(texts)

    def of_texts(self, groups: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """Return the groups of texts in which one copies a held-out text, and the reason."""
        texts = list(dict.fromkeys(text for group in groups.values() for text in group))
        least = {} if self.least is None else {"least": self.least}
        leaks = dict(zip(texts, self.index.find_all(texts, self.embedder, **least), strict=True))
        reasons = {}
        for name, group in groups.items():
            if leak := next(filter(None, map(leaks.get, group)), None):
                reasons[name] = REASONS[leak.how]
        return reasons


def vocabulary_of(folder: Path) -> str | None:
    """Return the hash of a model's vocabulary, merges and added tokens, independent of the file's
    format; None without a tokenizer.json."""
    file = folder / "tokenizer.json"
    if not file.is_file():
        return None
    known = json.loads(file.read_text(encoding="utf-8"))
    model: Mapping[str, Any] = known.get("model", {})
    added = sorted((each["id"], each["content"]) for each in known.get("added_tokens", ()))
    # Files of older versions have a merge as text, newer ones as a pair.
    merges = [each if isinstance(each, str) else " ".join(each) for each in model.get("merges", ())]
    tokens = {"vocab": model.get("vocab"), "merges": merges}
    return content_hash([model.get("type"), tokens, added])


def foreign_engines(
    engine_ids: Iterable[str | None], base: Path, catalog: Catalog
) -> dict[str, bool | None]:
    """Return whether each engine's tokens differ from the base's; ids of another vocabulary would
    be trained as other words. None if unknown: an external endpoint, or a model whose folder is
    missing."""
    own = vocabulary_of(base)
    is_foreign: dict[str, bool | None] = {}
    for engine_id in {each for each in engine_ids if each is not None}:
        served = [catalog.artifact(each) for each in catalog.parents(engine_id)]
        folders = [each["detail"].get("folder") for each in served if each is not None]
        theirs = {vocabulary_of(Path(each)) for each in folders if each is not None} - {None}
        is_foreign[engine_id] = own not in theirs if own is not None and theirs else None
    return is_foreign
