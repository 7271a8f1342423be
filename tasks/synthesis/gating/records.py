"""Gate: the domain's records are what its tables say, with what a task changes, too."""

from collections.abc import Sequence

from tutti.tasks.synthesis.domains import DomainTask, RecordChecks, changed_task
from tutti.tasks.synthesis.gating.example import EXAMPLE, EXTENDED, LOOKED_UP, varied
from tutti.tasks.synthesis.gating.gate import Examples, GateContext
from tutti.tasks.task_sets import Verdict, verdict


class Records:
    """All records are checked once a domain, and for each task those that it changes."""

    name = "records"
    about = "Records have their tables' fields, kinds and bounds, and every foreign key exists."

    async def judge(self, tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
        """A fault of the domain's own records rejects all of its tasks."""
        checks = context.fact(RecordChecks)
        return [verdict(checks.fault or checks.changed_fault(task.world.changed)) for task in tasks]

    def examples(self) -> Examples:
        """Dangling keys, a number out of bounds, a field that no table has."""
        records = EXAMPLE.records
        member = {**records["members"]["M1"], "loans": ["L9"]}
        dangling = {**records, "members": {**records["members"], "M1": member}}
        late = changed_task(EXTENDED, changed={"loans": {"L1": {"days": 31}}})
        stray = changed_task(EXTENDED, changed={"loans": {"L1": {"colour": "red"}}})
        known = changed_task(EXTENDED, changed={"loans": {"L1": {"days": 30}}})
        return Examples(
            good=((EXAMPLE, EXTENDED), (EXAMPLE, LOOKED_UP), (EXAMPLE, known)),
            bad=(
                (varied(EXAMPLE, records=dangling), LOOKED_UP),
                (EXAMPLE, late),
                (EXAMPLE, stray),
            ),
        )
