"""Export of predictions for SWE-bench's own program (``swebench`` 5.0).

In: the stored answers of a sweep. Out: ``preds.json``, an object by instance, whose `attempt_id`
lets `tutti import swe-bench --onto` identify the graded attempt. A file has one prediction per
instance; with several cells or trials, each has a folder.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from tutti.storage import SCORABLE, StoreError, replacing

INSTANCE = re.compile(r"[^\s/]+__[^\s/]+-\d+")
AGAIN = re.compile(r"#\d+$")  # a gateway's program that came again
FENCE = re.compile(r"^```(?:diff|patch)\b[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
START = re.compile(r"^(?:diff --git |--- [^\n]*\n\+\+\+ )", re.MULTILINE)
END = re.compile(r"^```", re.MULTILINE)  # of a fence without a language around the diff
ANSWERS_SQL = f"""
with own as (
    select a.cell_id, a.task_id, a.trial, a.answer, a.attempt_id, c.task_set_id,
           row_number() over (
               partition by a.cell_id, coalesce(a.sample_id, a.attempt_id)
               order by coalesce(a.attempt, 0) desc, a.ended_at desc nulls last, a.attempt_id desc
           ) as place
    from attempts a join cells c on c.cell_id = a.cell_id
    where a.sweep_id = $sweep and c.status != 'superseded'
        and a.status in {SCORABLE}
), known as (
    select task_set_id, task_id, any_value(slots) as slots from tasks group by all
)
select cell_id, own.attempt_id, own.task_id, own.answer,
       slots ->> 'instance_id', slots ->> 'id'
from own left join known using (task_set_id, task_id)
where place = 1 order by cell_id, own.task_id, own.trial, own.attempt_id
"""
LAST_SQL = """
select attempt_id, arg_max(content, position) from messages
where sweep_id = $sweep and role = 'assistant' and content is not null group by attempt_id
"""


@dataclass(frozen=True)
class StoredAnswer:
    """An attempt at a task, with its stored answer."""

    cell_id: str
    attempt_id: str
    task_id: str
    answer: str | None
    instance_id: str | None
    """None where the task is no instance of SWE-bench."""


def stored_answers(connection: duckdb.DuckDBPyConnection, sweep_id: str) -> list[StoredAnswer]:
    """The attempts of a sweep that have an answer, by cell, task and trial."""
    rows = connection.execute(ANSWERS_SQL, {"sweep": sweep_id}).fetchall()
    found = []
    for cell, attempt, task, answer, named, row_id in rows:
        ids = (AGAIN.sub("", each) for each in (row_id, task) if each)
        instance = named or next((each for each in ids if INSTANCE.fullmatch(each)), None)
        found.append(StoredAnswer(cell, attempt, task, answer, instance))
    return found


def last_replies(connection: duckdb.DuckDBPyConnection, sweep_id: str) -> dict[str, str]:
    """The last reply of each attempt of a sweep, by the attempt's id."""
    return dict(connection.execute(LAST_SQL, {"sweep": sweep_id}).fetchall())


def patch_in(text: str) -> str | None:
    """Return the diff in a text: its last fence ``diff`` or ``patch``, else from the first line on
    that begins a diff. None without one. The last line gets a line end, which `patch` requires."""
    if fences := FENCE.findall(text):
        return str(fences[-1])
    start = START.search(text)
    if start is None:
        return None
    found = END.split(text[start.start() :], maxsplit=1)[0]
    return found if found.endswith("\n") else found + "\n"


PREDICTIONS = "preds.json"


@dataclass
class WrittenPredictions:
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
    """Write the predictions below `folder`, which is created.

    `replies`: the last reply by attempt, for answers without a diff; `cells`: name of folder and
    model by cell. Raises StoreError if a task has no instance id, without answers, and for existing
    files, unless `force` is set.
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
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as new:
                new.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror or error}") from error
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
    place, written = Path(), {cell for cell, _ in groups}
    if len(written) > 1:
        name = cells[cell_id][0]
        namesakes = sum(cells[cell][0] == name for cell in written)
        place /= name if namesakes == 1 else f"{name}_{cell_id.replace(':', '-')}"
    return place / f"trial-{trial}" if any(number for _, number in groups) else place
