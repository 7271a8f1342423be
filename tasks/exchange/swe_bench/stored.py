"""A sweep's stored answers to SWE-bench's instances, and the patch in each.

In: a connection of `storage.connect` and a sweep's id. Out: of each sample the last attempt that
has an answer (ok, limit, model_error or scorer_error), with its instance's id: the field
`instance_id` of the task, else the task's id where it has the form ``owner__repository-number``.
"""

import re
from dataclasses import dataclass

import duckdb

from tutti.storage import SCORABLE

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
    """An attempt at a task."""

    cell_id: str
    attempt_id: str
    task_id: str
    answer: str | None
    instance_id: str | None
    """None where the task is no instance of SWE-bench."""


def stored_answers(connection: duckdb.DuckDBPyConnection, sweep_id: str) -> list[StoredAnswer]:
    """The attempts of a sweep that have an answer, by cell, task and trial."""
    rows = connection.execute(ANSWERS_SQL, {"sweep": sweep_id}).fetchall()
    return [
        StoredAnswer(cell, attempt, task, answer, _instance(named, row_id, task))
        for cell, attempt, task, answer, named, row_id in rows
    ]


def last_replies(connection: duckdb.DuckDBPyConnection, sweep_id: str) -> dict[str, str]:
    """The last reply of each attempt of a sweep, by the attempt's id."""
    return dict(connection.execute(LAST_SQL, {"sweep": sweep_id}).fetchall())


def patch_in(text: str) -> str | None:
    """The diff in a text: its last fence ``diff`` or ``patch``, else from the first line on that
    begins a diff. None without one. A line's end is added to the last line, as `patch` wants it.
    """
    if fences := FENCE.findall(text):
        return str(fences[-1])
    start = START.search(text)
    if start is None:
        return None
    found = END.split(text[start.start() :], maxsplit=1)[0]
    return found if found.endswith("\n") else found + "\n"


def _instance(named: str | None, row_id: str | None, task_id: str) -> str | None:
    if named:
        return named
    ids = (AGAIN.sub("", each) for each in (row_id, task_id) if each)
    return next((each for each in ids if INSTANCE.fullmatch(each)), None)
