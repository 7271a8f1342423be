"""The end state of a stored attempt: its calls run again on the task's own database.

In: a domain, a task, the stored calls of an attempt. Out: the database's `state_hash`, or why it is
unknown. Calls run as in the attempt (`DomainWorld`), in the sandbox, and each must give the stored
result, because otherwise the database would be another attempt's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tutti.storage import Home, query
from tutti.tasks.agents.tools import MALFORMED, ToolUnavailable
from tutti.tasks.synthesis.domains.domain import Domain, DomainTask
from tutti.tasks.synthesis.domains.world import DomainWorld

CALLS_SQL = """
select attempt_id, name, arguments, result, error_type from tool_runs
where attempt_id in (select unnest($ids)) order by attempt_id, step, started_at
"""
# A turn's calls are carried out in their order; a message of the agent may have calls without one
# of them being on record, where a harness made the attempt.
UNRECORDED_SQL = """
select attempt_id from messages where attempt_id in (select unnest($ids))
    and call_id is not null and role = 'assistant' and len(tool_calls) > 0
    and attempt_id not in (
        select attempt_id from tool_runs where attempt_id in (select unnest($ids))
    )
group by all
"""
SHOWN = 60


@dataclass(frozen=True)
class StoredCall:
    """A call of an attempt."""

    name: str
    arguments: str
    """JSON in the model's own words."""
    result: str
    error_type: str | None = None


@dataclass(frozen=True)
class EndState:
    """The end state of an attempt."""

    db: str = ""
    """`state_hash` of the database."""
    fault: str = ""
    """Why it is not known."""


def stored_calls(attempts: Sequence[str], home: Home) -> Mapping[str, Sequence[StoredCall] | None]:
    """Return the calls of each attempt in order; None if some of its calls are not stored."""
    if not attempts:
        return {}
    given = {"ids": list(attempts)}
    found: dict[str, list[StoredCall] | None] = {each: [] for each in attempts}
    for row in query(CALLS_SQL, home, given):
        kept = found[row.pop("attempt_id")]
        assert kept is not None
        kept.append(StoredCall(**row))
    return found | {row["attempt_id"]: None for row in query(UNRECORDED_SQL, home, given)}


async def end_state(
    domain: Domain, task: DomainTask, calls: Sequence[StoredCall] | None
) -> EndState:
    """Run an attempt's calls in a new database of its task."""
    if calls is None:
        return EndState(fault="its calls' results are not in tool_runs")
    world = DomainWorld(domain, task, None, solo=True)
    offered = {each.name for each in domain.offered(task)}
    try:
        for number, call in enumerate(calls, 1):
            # Others never came to the database: they were malformed, or no tool of the domain.
            if call.name not in offered or call.error_type == MALFORMED:
                continue
            again = await world.use(call.name, call.arguments)
            if again.content != call.result:
                differ = f"{call.result[:SHOWN]!r} then, {again.content[:SHOWN]!r} now"
                return EndState(fault=f"call {number}, {call.name}, returned {differ}")
        return EndState(str(world.outcome()["db"]))
    except ToolUnavailable as error:
        return EndState(fault=str(error))
    finally:
        await world.close()
