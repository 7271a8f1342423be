"""Copies of the tables that a report is about: in memory, sorted by cell, without texts.

In: a store's connection and sweep ids. Out: a connection of its own in which the tables' names mean
those copies, so that macros read one cell's rows. It also has `origins`, `cell_windows`, `steps`
and the rows of `results`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Row = TypeVar("Row", bound=Mapping[str, Any])
MACROS_USED = ("results", "lost_samples")
"""The macros that a report needs; defining the others would take 50 ms."""

CURRENT = "status is distinct from 'superseded'"
"""Cells that count; one replaced by a cell with other content is in nothing of a report."""

ANSWER = "if(answer is null, null, hash(answer)::varchar) as answer"
"""A hash in place of the text: a report only compares answers with each other."""
# Of a score's detail the few numbers that are in a figure, not a judge's words.
READ_OF_DETAIL = (
    "if(answer in ('correct', 'incorrect', 'not_attempted'), answer, null) as verdict, "
    "try_cast(try(detail ->> '$.confidence') as double) as confidence, "
    "try(detail ->> '$.criteria[*].text') as criteria, "
    "try(detail ->> '$.criteria[*].rating') as ratings, "
    "try(detail ->> '$.criteria[*].range') as ranges, "
    "try(detail ->> '$.plan_figures') as plan_figures"
)
# Table to the columns that a report and the macros it asks read, and the order of its copy.
COPIED = {
    "attempts": (f"* replace ({ANSWER})", "cell_id"),
    "calls": (
        "cell_id, attempt_id, step, role, status, http_status, sent_at, admitted_at, ended_at, "
        "held_s, ttft_s, latency_s, prompt_tokens, cached_tokens, completion_tokens, finish_reason",
        "cell_id",
    ),
    "tool_runs": (
        "cell_id, attempt_id, step, name, started_at, ended_at, status, error_type",
        "cell_id",
    ),
    "retrievals": ("cell_id, attempt_id, step, latency_s", "cell_id"),
    "scores": (
        f"cell_id, attempt_id, scorer, scorer_version, value, correct, scored_at, {ANSWER}, "
        + READ_OF_DETAIL,
        "attempt_id",
    ),
    "server_metrics": ('cell_id, engine_id, name, "at", value', "cell_id, name"),
}
# Histograms' buckets are most of a server's samples and in no figure of a report.
ROWS_LEFT_OUT = {"server_metrics": "and not contains(name, '_bucket')"}

# As in window_summary: a log of another tool may not say when its calls were sent.
ORIGINS_SQL = """
create temp table origins as
with ends as (
    select cell_id, ended_at from calls
    union all select cell_id, ended_at from tool_runs
    union all select cell_id, ended_at from attempts
),
starts as (
    select cell_id, coalesce(min(sent_at), min(ended_at)) as t0 from calls group by cell_id
)
select cell_id, any_value(t0) as t0, (epoch_us(max(ended_at)) - epoch_us(any_value(t0))) / 1e6
           as last_s
from ends join starts using (cell_id) group by cell_id
"""
# A step is an orchestrator's call plus the tool runs that follow it, as in window_summary.
STEPS_SQL = """
create temp table steps as
with answered as (
    select cell_id, attempt_id, step, min(sent_at) as sent_at, max(ended_at) as ended_at
    from calls where role = 'orchestrator' and status = 'ok' group by all
),
tooled as (
    select cell_id, attempt_id, step, max(ended_at) as ended_at from tool_runs group by all
)
select a.cell_id, a.attempt_id, a.step, a.sent_at,
       (epoch_us(greatest(a.ended_at, coalesce(t.ended_at, a.ended_at))) - epoch_us(o.t0)) / 1e6
           as end_s,
       (epoch_us(greatest(a.ended_at, coalesce(t.ended_at, a.ended_at))) - epoch_us(a.sent_at))
           / 1e6 as latency_s
from answered a left join tooled t using (cell_id, attempt_id, step)
     join origins o on o.cell_id = a.cell_id
where a.ended_at is not null order by a.cell_id, end_s
"""
VIEWS_COPIED = ("headlines", "counted", "lost_samples", "results")
"""Views over the copies, each evaluated once."""
WINDOWS_SQL = """
create temp table cell_windows as
select cell_id, window_start_s as start_s, window_end_s as end_s, last_s from results
"""


@contextmanager
def focus(
    connection: "DuckDBPyConnection", sweep_ids: Sequence[str]
) -> Iterator["DuckDBPyConnection"]:
    """Yield a connection to the same store that sees only those sweeps; it is closed at the end."""
    focused = connection.cursor()
    try:
        focused.execute("set timezone = 'UTC'")
        for table, (columns, order) in COPIED.items():
            # By sweep, so that other sweeps' parts are not opened; by cell, for rows without one.
            focused.execute(
                f"create temp table {table} as select {columns} from {table} "
                "where (list_contains($sweeps, sweep_id) or sweep_id is null) and cell_id in "
                "(select cell_id from cells where list_contains($sweeps, sweep_id) "
                f"and {CURRENT}) "
                f"{ROWS_LEFT_OUT.get(table, '')} order by {order}",
                {"sweeps": list(sweep_ids)},
            )
        for view in VIEWS_COPIED:
            focused.execute(
                f"create temp table {view} as from {view} where cell_id in "
                "(select cell_id from cells where list_contains($sweeps, sweep_id))",
                {"sweeps": list(sweep_ids)},
            )
        for statement in (ORIGINS_SQL, STEPS_SQL, WINDOWS_SQL):
            focused.execute(statement)
        yield focused
    finally:
        focused.close()


def rows(connection: "DuckDBPyConnection", sql: str, **values: Any) -> list[dict[str, Any]]:
    """Return the rows of one statement with `$name` parameters, as dictionaries."""
    cursor = connection.execute(sql, values)
    names = [column[0] for column in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def by_key(found: Sequence[Row], key: str) -> dict[Any, list[Row]]:
    """Group rows by a column, in the order in which its values first occur."""
    groups: dict[Any, list[Row]] = {}
    for row in found:
        groups.setdefault(row[key], []).append(row)
    return groups


def rows_by(
    connection: "DuckDBPyConnection", key: str, sql: str, **values: Any
) -> dict[Any, list[dict[str, Any]]]:
    return by_key(rows(connection, sql, **values), key)
