"""The benchmarks ``negotiation`` and ``negotiation-self-play``: rows in, tasks out.

Each row is a `Scenario`; tutti ships four splits. The score is the share of the surplus that the
measured party wins (scorer ``reward``), by the recorded deal. Counterparts are programs, or
(``-self-play``) the model of ``roles.user``.
"""

from collections.abc import Iterator
from dataclasses import asdict

from tutti.tasks.benchmarks.negotiation.counterpart import KNOWN_KINDS
from tutti.tasks.benchmarks.negotiation.scenario import SIDES, Scenario
from tutti.tasks.benchmarks.negotiation.view import facts
from tutti.tasks.benchmarks.rows import Row
from tutti.tasks.benchmarks.source import Files
from tutti.tasks.task_sets import Task

PASS = 0.75
"""The share of the surplus from which an attempt counts as correct."""
NUMBERS = ("limit", "other_limit", "low", "high", "opening", "rounds")


def read(files: Files) -> Iterator[Task]:
    """One task per row. Raises BadRow."""
    for row in files.rows():
        made = _scenario(row)
        yield Task(
            key=made.id,
            inputs={"part": facts(made.own, made)},
            target={"pass": PASS, "scenario": asdict(made)},
            attributes={"side": made.side, "kind": made.kind, "rounds": str(made.rounds)},
        )


def _scenario(row: Row) -> Scenario:
    side, kind = row.text("side"), row.text("kind")
    if side not in SIDES:
        row.bad("side", f"{side!r} is not one of {', '.join(SIDES)}")
    if kind not in KNOWN_KINDS:
        row.bad("kind", f"{kind!r} is not one of {', '.join(KNOWN_KINDS)}")
    numbers = {name: row.whole(name) for name in NUMBERS}
    made = Scenario(id=row.name("id"), side=SIDES[SIDES.index(side)], kind=kind, **numbers)
    if (why := made.reason_invalid()) is not None:
        field, _, reason = why.partition(": ")
        row.bad(field, reason)
    return made
