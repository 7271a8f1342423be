"""Export of predictions for SWE-bench's own program (``swebench`` 5.0).

In: the stored answers of a sweep. Out: ``preds.json``, an object by instance with `instance_id`,
`model_name_or_path`, `model_patch` and `attempt_id`, by which `tutti import swe-bench --onto` knows
the graded attempt again; swebench reads over it. A file has one prediction an instance: each cell
and each trial has a folder where there are several.
"""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tutti.storage import StoreError
from tutti.tasks.exchange.swe_bench.stored import StoredAnswer, patch_in

PREDICTIONS = "preds.json"


@dataclass
class WrittenPredictions:
    """What was written."""

    files: list[Path] = field(default_factory=list)
    predictions: int = 0
    empty: int = 0
    """Predictions without a patch; swebench counts them as wrong."""


def write_predictions(
    answers: Sequence[StoredAnswer],
    replies: Mapping[str, str],
    cells: Mapping[str, tuple[str, str]],
    folder: Path,
    force: bool = False,
) -> WrittenPredictions:
    """Write the predictions below `folder`, which is made.

    `replies`: the last reply by attempt, for answers in which there is no diff; `cells`: name of
    folder and model by cell. Raises StoreError where a task has no instance id, without answers,
    and for files that are there already, unless `force` is set.
    """
    if not answers:
        raise StoreError("the sweep has no attempt with an answer")
    groups: dict[tuple[str, int], dict[str, StoredAnswer]] = {}
    trials: Counter[tuple[str, str]] = Counter()
    for each in answers:
        if each.instance_id is None:
            raise StoreError(
                f"task {each.task_id!r} has no instance id of SWE-bench: its rows need a field "
                "`instance_id`, or an `id` such as astropy__astropy-12907"
            )
        key = (each.cell_id, each.instance_id)
        groups.setdefault((each.cell_id, trials[key]), {})[each.instance_id] = each
        trials[key] += 1
    places = {group: folder / _place(group, groups, cells) / PREDICTIONS for group in groups}
    taken = [path for path in places.values() if path.exists()]
    if taken and not force:
        raise StoreError(f"{taken[0]}: exists already; --force replaces it")
    written = WrittenPredictions()
    for group, path in places.items():
        rows = {
            id: {
                "instance_id": id,
                "model_name_or_path": cells[group[0]][1],
                "model_patch": patch_in(each.answer or "")
                or patch_in(replies.get(each.attempt_id, ""))
                or "",
                "attempt_id": each.attempt_id,
            }
            for id, each in groups[group].items()
        }
        _replace(path, json.dumps(rows, indent=2) + "\n")
        written.files.append(path)
        written.predictions += len(rows)
        written.empty += sum(not row["model_patch"] for row in rows.values())
    return written


def _place(
    group: tuple[str, int],
    groups: Mapping[tuple[str, int], object],
    cells: Mapping[str, tuple[str, str]],
) -> Path:
    cell_id, trial = group
    place = Path()
    if len({cell for cell, _ in groups}) > 1:
        name = cells[cell_id][0]
        namesakes = sum(cells[cell][0] == name for cell in {cell for cell, _ in groups})
        place /= name if namesakes == 1 else f"{name}_{cell_id.replace(':', '-')}"
    return place / f"trial-{trial}" if any(number for _, number in groups) else place


def _replace(path: Path, text: str) -> None:
    """Write a file whole: under another name first."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.new")
        new.write_text(text, encoding="utf-8")
        os.replace(new, path)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error
