"""Failures: attempts by status and reason, calls and tools that failed, some transcripts.

In: a connection of `focus` and its sweeps. Out: `Failure` and `Transcript` rows, rows of faults.
Only the transcripts chosen are read, each message up to a bound, so that their page stays small.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile, zip_longest
from typing import TYPE_CHECKING, Any

from tutti.tasks.reporting.measures.numbers import MEAN_SCORE
from tutti.tasks.sweeps.results import rows, rows_by

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

KINDS = 30  # rows of each table; the rarer ones are one row
EXAMPLES = 3  # transcripts of each kind
TRANSCRIPTS = 24
MESSAGE_CHARACTERS = 2000
FIRST_MESSAGES, LAST_MESSAGES = 4, 12  # of a long transcript: the task, and how it ended
ENDED_BY = ("status", "stop_reason", "error_type", "error_message")
TITLE_CHARACTERS = 100  # of a transcript's question
WRONG = "wrong answer"
"""Stands in place of an error type: nothing failed, the answer was scored as wrong."""
PARTLY = "partly right"
"""The same where the benchmark reports a mean score, and the answer's is above 0."""

FAILURES_SQL = f"""
with failed as (
    select a.*, (coalesce(epoch_us(a.ended_at), 0), a.attempt_id) as ended,
           case when a.status != 'ok' and (a.status != 'scorer_error' or c.attempt_id is null)
                then coalesce(a.error_type, '')
                when measure = '{MEAN_SCORE}' and c.headline_score > 0 then '{PARTLY}'
                else '{WRONG}' end as error
    from attempts a left join counted c on c.cell_id = a.cell_id and c.attempt_id = a.attempt_id
    where list_contains($sweeps, a.sweep_id)
        and (a.status not in ('ok', 'scorer_error') or coalesce(not c.correct, false)
             or a.status = 'scorer_error' and c.attempt_id is null)
)
select status, coalesce(stop_reason, '') as stop_reason, error,
       arg_max(error_message, ended) as message, count(*) as n, count(distinct cell_id) as cells,
       arg_max(attempt_id, ended, {EXAMPLES}) as examples
from failed group by status, coalesce(stop_reason, ''), error
order by any_value(status = 'ok'), n desc, failed.status, stop_reason, error
"""
FAULTS_SQL = f"""
with ended as (
    select 'call' as kind, role as name, status, cast(http_status as varchar) as detail from calls
    union all select 'tool', name, status, error_type from tool_runs
),
counted as (
    select kind, coalesce(name, '') as name, coalesce(status, '') as status,
           coalesce(detail, '') as detail, count(*) as n
    from ended group by all
),
totals as (
    select kind, name, sum(n)::bigint as of_all from counted group by all
)
select kind, name, status, detail, n, of_all from counted join totals using (kind, name)
where status not in ('ok', '') order by n desc, kind, name, status, detail limit {KINDS}
"""
TRANSCRIPT_SQL = """
select attempt_id, position, role, name, left(content, {cut}) as content,
       length(content) as characters, left(reasoning, {cut}) as reasoning, tool_calls, nth, n
from (
    select *, row_number() over (partition by attempt_id order by position) as nth,
           count(*) over (partition by attempt_id) as n
    from messages where attempt_id in ({ids})
)
where nth <= {first} or nth > n - {last} order by attempt_id, position
"""
SHOWN_SQL = """
select attempt_id, task_id, trial, model, policy, concurrency, status, stop_reason, error_type,
       error_message
from attempts where list_contains($ids, attempt_id)
"""


@dataclass(frozen=True)
class Failure:
    """Attempts that ended in the same way."""

    status: str
    stop_reason: str
    error: str
    """`error_type`; WRONG for an attempt that ended well with a wrong answer, PARTLY for one that
    is right in part."""
    message: str | None
    n: int
    cells: int
    examples: Sequence[str]
    """Attempt ids, the latest first; empty where transcripts are not shown."""
    side: str = ""


@dataclass(frozen=True)
class Transcript:
    """One attempt and its messages, the middle of a long one left out."""

    attempt: Mapping[str, Any]
    """Columns of `attempts`; of a comparison also `side`."""
    messages: Sequence[Mapping[str, Any]]
    """`role`, `name`, `content` (cut), `characters` (of it all), `reasoning`, `tool_calls`,
    `nth` (from 1) and `n` (of all messages)."""

    @property
    def title(self) -> str:
        """Its side, its question in one line (the last before the first answer), and its end."""
        question = f"task {self.attempt['task_id']}"
        for message in takewhile(lambda each: each["role"] != "assistant", self.messages):
            if message["role"] == "user" and message["content"]:
                question = " ".join(str(message["content"]).split())
        if len(question) > TITLE_CHARACTERS:
            question = f"{question[: TITLE_CHARACTERS - 1]}…"
        end = " · ".join(self.attempt[name] for name in ENDED_BY if self.attempt[name])
        return ": ".join(filter(None, (self.attempt.get("side"), question, end)))

    @property
    def where(self) -> str:
        a = self.attempt
        load = f"{a['policy']} at {a['concurrency']}" if a["concurrency"] else ""
        return ", ".join(part for part in (f"task {a['task_id']}", a["model"], load) if part)


def failures(focused: "DuckDBPyConnection", sweep_ids: Sequence[str]) -> list[Failure]:
    """Return failures by count, wrong and partly right answers last.

    The rarest kinds beyond KINDS are one row of their own.
    """
    kinds = [Failure(**row) for row in rows(focused, FAILURES_SQL, sweeps=list(sweep_ids))]
    if rest := kinds[KINDS:]:
        n, cells = sum(each.n for each in rest), max(each.cells for each in rest)
        kinds[KINDS:] = [Failure("", "", f"{len(rest)} rarer kinds", None, n, cells, ())]
    return kinds


def faults(focused: "DuckDBPyConnection") -> list[dict[str, Any]]:
    """Failed calls by role and tool runs by tool, the most frequent first: rows of FAULTS_SQL."""
    return rows(focused, FAULTS_SQL)


def transcripts(focused: "DuckDBPyConnection", shown: Sequence[Failure]) -> dict[str, Transcript]:
    """Transcripts by attempt id: the latest of each kind, then the second, up to TRANSCRIPTS.

    An attempt without messages (one whose process died) has none.
    """
    turns = zip_longest(*(failure.examples for failure in shown))
    ids = [each for turn in turns for each in turn if each is not None][:TRANSCRIPTS]
    if not ids:
        return {}
    values = {f"id{i}": attempt_id for i, attempt_id in enumerate(ids)}
    sql = TRANSCRIPT_SQL.format(
        cut=MESSAGE_CHARACTERS,
        first=FIRST_MESSAGES,
        last=LAST_MESSAGES,
        ids=", ".join(f"${name}" for name in values),  # constants: files are skipped by them
    )
    messages = rows_by(focused, "attempt_id", sql, **values)
    attempts = {row["attempt_id"]: row for row in rows(focused, SHOWN_SQL, ids=ids)}
    return {each: Transcript(attempts[each], messages[each]) for each in ids if each in messages}
