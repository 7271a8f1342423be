"""Stores a plan's tasks and task set as `synthesize` does."""

from tutti.storage import Catalog, commit
from tutti.tasks.sweeps.plan.plan import Plan


def enter_tasks(catalog: Catalog, plan: Plan) -> None:
    """Store the rows of `tasks` and the task set's artifact."""
    tasks = [sample.task for sample in plan.cells[0].samples]
    rows = [
        {
            "task_set_id": plan.config.task_set.task_set_id,
            "task_id": each.task_id,
            "family": "sum",
            "split": "test",
            "question": each.messages[-1]["content"],
            "answer": each.target["answer"],
            "status": "accepted",
        }
        for each in tasks
    ]
    commit(catalog, {"tasks": rows})
    catalog.enter_artifact(plan.config.task_set.task_set_id, {"request": "r"}, [])
