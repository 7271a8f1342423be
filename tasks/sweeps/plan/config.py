"""What a suite's cells are measured with: its tasks, its index, and what serves its models.

In: entries of the registry, a task set. Out: a `Serving`, an engine or endpoint for each model, and
a suite's `CellConfig`. Nothing is started here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tutti.storage import Catalog, content_hash
from tutti.tasks.serving import Model, RegistryError, checkpoint_id
from tutti.tasks.serving.engines import Engine, ExternalEndpoint, engine_of
from tutti.tasks.sweeps.plan.roles import NO_ROLES, Roles, ServedModel, roles_of
from tutti.tasks.sweeps.plan.task_set import TaskSet
from tutti.tasks.sweeps.spec import Suite


@dataclass(frozen=True)
class CellConfig:
    """The inputs of a plan besides the suite, as content-hash ids and as what they are."""

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
        """What calls and tables name the measured model."""
        return self.entry_name or self.served_name

    @property
    def command_name(self) -> str:
        """What a harness's calls name it: the served name, which client libraries know."""
        return self.model_name if self.is_served_name_taken else self.served_name

    def engines(self, suite: Suite) -> int:
        """Engines that share the measured model's load."""
        count = suite.execution.engines
        return count if self.model is None else engine_count(self.model, count)

    @property
    def parents(self) -> list[str]:
        """The artifacts that its cells come from."""
        own = (self.task_set.task_set_id, self.index_id, self.engine_id, self.model_id)
        known = [each for each in own if each is not None]
        return known + [each for each in self.roles.engine_ids if each not in known]


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter to measure in an engine instead of the engine's own weights."""

    name: str
    adapter_id: str
    folder: Path


NONE_TRAINED: Mapping[str, str] = {}


@dataclass(frozen=True)
class Serving:
    """The engines and endpoints of a suite's models."""

    engine: Engine | ExternalEndpoint
    """Of the model that is measured."""
    replicas: tuple[Engine, ...]
    """More engines of that model, which share its load."""
    others: tuple[Engine | ExternalEndpoint, ...]
    """Of judge, user and experts."""
    served: Mapping[str, ServedModel]
    """Every model as it is reached, by its name in the registry."""

    @property
    def model(self) -> Model:
        """The registry's entry of the model that is measured."""
        return self.served[self.engine.name].model

    @property
    def every(self) -> tuple[Engine | ExternalEndpoint, ...]:
        """All that has to run."""
        return (self.engine, *self.replicas, *self.others)

    @property
    def started(self) -> tuple[Engine, ...]:
        """What of it tutti starts."""
        return tuple(engine for engine in self.every if isinstance(engine, Engine))

    def keep(self) -> None:
        """Let other runs find and use the engines once they run."""
        for engine in self.started:
            engine.kept = True

    def config(
        self,
        suite: Suite,
        task_set: TaskSet,
        index_id: str | None = None,
        adapter: Adapter | None = None,
    ) -> CellConfig:
        """What the cells of `suite` are measured with. Raises SuiteError for its agent's file."""
        own = CellConfig(
            task_set,
            self.engine.engine_id,
            checkpoint_id(self.model),
            self.engine.address.served_name,
            index_id,
            self.model,
            roles_of(suite, self.served),
            self.engine.name,
            self.engine.address.served_name in self.served.keys() - {self.engine.name},
        )
        if adapter is None:
            return own
        return replace(
            own, model_id=adapter.adapter_id, served_name=adapter.name, entry_name=adapter.name
        )


def serving_of(
    models: Mapping[str, Model],
    catalog: Catalog,
    engines: int = 1,
    trained_by: Mapping[str, str] = NONE_TRAINED,
) -> Serving:
    """What serves `models`; the first is the one that is measured, by so many `engines`.

    `trained_by`: entries whose weights change, and the training that changes them. Raises
    RegistryError for several engines of a model that others serve.
    """
    (engine, *others), served = _engines_of(models, catalog, trained_by)
    replicas = _replicas_of(engine, engines, catalog)
    also = [each for other in others for each in (other, *_replicas_of(other, 1, catalog))]
    return Serving(engine, tuple(replicas), tuple(also), served)


def check_models(models: Mapping[str, Model]) -> None:
    """See that models measured in one sweep have cells of their own. Raises RegistryError."""
    known: dict[str, str] = {}
    for name, model in models.items():
        if model.endpoint is None:
            continue  # an engine's served name is its entry's
        content = content_hash([checkpoint_id(model), model.asked])
        if content in known:
            raise RegistryError(
                f"models.{name} and models.{known[content]} are one model: the same endpoint, "
                "served name and request settings; name one of them in the sweep"
            )
        known[content] = name


def engine_count(model: Model, asked: int) -> int:
    """Engines of a model, of which the suite asks for so many: more than one is the stronger
    number."""
    return model.engine.replicas if asked == 1 and model.engine is not None else asked


def _replicas_of(engine: Engine | ExternalEndpoint, count: int, catalog: Catalog) -> list[Engine]:
    """What serves the model besides `engine`. Raises RegistryError where others serve it."""
    if isinstance(engine, Engine) and engine.trained_by is None:
        count = engine_count(engine.model, count)  # a training changes the weights of one engine
    if count == 1:
        return []
    if isinstance(engine, ExternalEndpoint):
        raise RegistryError(
            f"models.{engine.name} is served by others: `execution.engines` is for models "
            "with a `checkpoint`"
        )
    return [Engine(engine.name, engine.model, catalog) for _ in range(count - 1)]


def _engines_of(
    models: Mapping[str, Model], catalog: Catalog, trained_by: Mapping[str, str]
) -> tuple[list[Engine | ExternalEndpoint], dict[str, ServedModel]]:
    """What serves the models, each once, in their order; and each model as it is reached."""
    engines: dict[str, Engine | ExternalEndpoint] = {}
    served = {}
    for name, model in models.items():
        made = engine_of(name, model, catalog, trained_by.get(name))
        engine = engines.setdefault(made.engine_id, made)
        engine.entries[name] = model
        served[name] = ServedModel(name, engine.engine_id, model)
    return list(engines.values()), served
