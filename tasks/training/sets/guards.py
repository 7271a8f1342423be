"""What may be trained on: no attempt of a held-out task, none that failed for other reasons, and no
text that copies a held-out one.

In: a store and the splits that may be trained on. Out: a reason for each attempt, or each group of
texts, that is left out. Held out are the questions of tasks of all other splits, and the user's own
files (`leaks`). How a copy is found: `leaks.index`.

Recorded ids must be the base's: of the same tokens, by the tokenizers of both models. Ids of
another vocabulary would be trained as other words, and nothing would look wrong.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tutti.storage import COUNTED, Catalog, Home, content_hash, query
from tutti.storage import catalog as cat
from tutti.tasks.leaks import Leak, LeakIndex, own_texts, texts_of_sets
from tutti.tasks.retrieval import Embedder, EndpointEmbedder
from tutti.tasks.training.job import TrainingData

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
    """Rows of `tasks`."""
    allowed: frozenset[str]
    """Splits."""
    own: Sequence[str] = ()
    """Texts of the user's own files."""
    embedder: Embedder | None = None
    least: float | None = None
    """Least cosine of one text to another, for it to be that reworded; None: the guard's own."""

    @classmethod
    def of(cls, home: Home, splits: Iterable[str] = ("train",)) -> "HeldOut":
        """Of a store and the splits that may be trained on; no embedder is asked. Raises
        UsageError."""
        return cls(query(TASKS, home), frozenset(splits), own_texts(home))

    @classmethod
    def asked_by(cls, data: TrainingData, home: Home) -> "HeldOut":
        """As a job asks, with its embedder. Raises UsageError."""
        given = data.embedder
        embedder = EndpointEmbedder(given.url, given.model, given.dimensions) if given else None
        held = cls.of(home, data.splits)
        return replace(held, embedder=embedder, least=data.near_held_out)

    @cached_property
    def splits(self) -> Mapping[str, set[str]]:
        """Task to its splits; a task that is not here is of no task set."""
        found: dict[str, set[str]] = {}
        for row in self.tasks:
            found.setdefault(row["task_id"], set()).add(row["split"])
        return found

    @cached_property
    def index(self) -> LeakIndex:
        """Of the texts that are held out."""
        held = (row for row in self.tasks if row["split"] not in self.allowed)
        return LeakIndex([*texts_of_sets(held), *self.own])

    @property
    def guards(self) -> dict[str, str]:
        """Which guards looked at the texts; one that did not is never one that found nothing."""
        by = "not run: no data.embedder" if self.embedder is None else str(self.embedder.describe())
        return {"copies": f"run: {len(self.index.texts)} held-out texts", "rewordings": by}

    def of_attempts(
        self, attempts: Iterable[Mapping[str, Any]], said: Mapping[str, Sequence[str]]
    ) -> dict[str, str]:
        """Attempts that are left out, and why. `said`: what was said in those of no task set, of
        which all texts are compared; of others the task's question."""
        reasons, asked = {}, {}
        questions = {row["task_id"]: row["question"] or "" for row in self.tasks}
        for row in attempts:
            name, why = row["attempt_id"], self._of_task(row, row["attempt_id"] in said)
            if why is None:
                asked[name] = said[name] if name in said else [questions[row["task_id"]]]
            else:
                reasons[name] = why
        return reasons | self.of_texts(asked)

    def of_texts(self, groups: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """Groups of texts that are left out because one copies a held-out text, and why."""
        texts = list(dict.fromkeys(text for group in groups.values() for text in group))
        least = {} if self.least is None else {"least": self.least}
        found = dict(zip(texts, self.index.find_all(texts, self.embedder, **least), strict=True))
        copied = {name: _first(map(found.get, group)) for name, group in groups.items()}
        return {name: REASONS[leak.how] for name, leak in copied.items() if leak is not None}

    def _of_task(self, attempt: Mapping[str, Any], is_free: bool) -> str | None:
        if attempt["status"] not in COUNTED and not attempt["is_repaired"]:
            return f"status {attempt['status']}"
        splits = set() if is_free else self.splits.get(attempt["task_id"])
        if splits is None:
            return "task of no known split"
        other = splits - self.allowed
        return f"held-out split {min(other)}" if other else None


def _first(leaks: Iterable[Leak | None]) -> Leak | None:
    return next((leak for leak in leaks if leak is not None), None)


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
