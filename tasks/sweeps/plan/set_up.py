"""What a suite's cells are measured with: its tasks, its index, and what serves its models."""

from dataclasses import dataclass

from tutti.tasks.serving import Model
from tutti.tasks.sweeps.plan.roles import NO_ROLES, Roles
from tutti.tasks.sweeps.plan.task_set import TaskSet


@dataclass(frozen=True)
class SetUp:
    """The inputs of a plan besides the suite, as content-hash ids and as what they are."""

    task_set: TaskSet
    engine_id: str
    model_id: str
    """Of its weights, or of the endpoint that others serve."""
    served_name: str
    """What calls name the measured model."""
    index_id: str | None = None
    """None where the tasks have nothing to search."""
    model: Model | None = None
    """The registry's entry; None asks as `Model` does by default."""
    roles: Roles = NO_ROLES

    @property
    def parents(self) -> list[str]:
        """The artifacts that its cells come from."""
        own = (self.task_set.task_set_id, self.index_id, self.engine_id, self.model_id)
        known = [each for each in own if each is not None]
        return known + [each for each in self.roles.engine_ids if each not in known]
