"""What serves a sweep's models: an engine or endpoint for each, replicas of the measured one.

In: entries of the registry. Out: engines, not started, and each model as it is reached.
"""

from collections.abc import Mapping

from tutti.storage import Catalog
from tutti.tasks.serving import Engine, Model, Outside, RegistryError, engine_of
from tutti.tasks.sweeps.plan import Served


def replicas_of(engine: Engine | Outside, count: int, catalog: Catalog) -> list[Engine]:
    """What serves the model besides `engine`. Raises RegistryError where others serve it."""
    if count == 1:
        return []
    if isinstance(engine, Outside):
        raise RegistryError(
            f"models.{engine.name} is served by others: `engines` is for models with a `checkpoint`"
        )
    return [Engine(engine.name, engine.model, catalog) for _ in range(count - 1)]


def engines_of(
    models: Mapping[str, Model], catalog: Catalog
) -> tuple[list[Engine | Outside], dict[str, Served]]:
    """What serves the models, each once, in their order; and each model as it is reached.

    Raises RegistryError where calls could not say which of two models they mean.
    """
    engines: dict[str, Engine | Outside] = {}
    served = {}
    for name, model in models.items():
        made = engine_of(name, model, catalog)
        engine = engines.setdefault(made.engine_id, made)
        served[name] = Served(engine.address.served_name, engine.engine_id, model)
    known: dict[str, str] = {}
    for engine in engines.values():
        called = engine.address.served_name
        if called in known:
            raise RegistryError(
                f"models.{engine.name} and models.{known[called]} are both called {called!r} where "
                "they are served, and one sweep needs both; serve one by another name"
            )
        known[called] = engine.name
    return list(engines.values()), served


def check_names(models: Mapping[str, Model]) -> None:
    """See that models measured in one sweep are told apart in its tables. Raises RegistryError."""
    known: dict[str, str] = {}
    for name, model in models.items():
        called = model.served_name or name
        if called in known:
            raise RegistryError(
                f"models.{name} and models.{known[called]} are both called {called!r}: in one "
                "sweep nobody could tell their figures apart"
            )
        known[called] = name
