"""The inputs of a suite's cells for ids: tasks, index, engine, weights and roles."""

from dataclasses import dataclass
from pathlib import Path

from tutti.tasks.serving.registry import Model
from tutti.tasks.sweeps.plan.roles import NO_ROLES, Roles
from tutti.tasks.sweeps.plan.task_set import TaskSet
from tutti.tasks.sweeps.spec import Suite


@dataclass(frozen=True)
class CellConfig:
    """The inputs of a plan besides the suite, as content-hash ids and as objects."""

    task_set: TaskSet
    engine_id: str
    model_id: str
    """Of its weights, or of the endpoint that others serve."""
    served_name: str
    """The measured model's name at its engine or endpoint, or an adapter's; for ids."""
    index_id: str | None = None
    """None where the tasks have nothing to search."""
    model: Model | None = None
    """The registry's entry; None asks as `Model` does by default."""
    roles: Roles = NO_ROLES
    entry_name: str = ""
    """The entry's name; empty where calls and tables have the served one."""
    is_served_name_taken: bool = False
    """Whether another model of the sweep is an entry by that name."""

    @property
    def model_name(self) -> str:
        """The name of the measured model in calls and tables."""
        return self.entry_name or self.served_name

    @property
    def command_name(self) -> str:
        """The model's name in a harness's calls: the served name, which client libraries know."""
        return self.model_name if self.is_served_name_taken else self.served_name

    def engines(self, suite: Suite) -> int:
        """Return the number of engines that share the measured model's load."""
        count = suite.execution.engines
        return count if self.model is None else engine_count(self.model, count)

    @property
    def parents(self) -> list[str]:
        """The parent artifacts of its cells."""
        own = (self.task_set.task_set_id, self.index_id, self.engine_id, self.model_id)
        known = [each for each in own if each is not None]
        return known + [each for each in self.roles.engine_ids if each not in known]


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter to measure in an engine instead of the engine's own weights."""

    name: str
    adapter_id: str
    folder: Path


def engine_count(model: Model, asked: int) -> int:
    """Return the number of engines of a model: the model's or the suite's (`asked`), whichever is
    above 1."""
    return model.engine.replicas if asked == 1 and model.engine is not None else asked
