"""An endpoint that tutti does not start, with the interface of `Engine`."""

import asyncio
import logging
import os

from tutti.storage import Catalog
from tutti.tasks.serving.engine import Engine, EngineAddress
from tutti.tasks.serving.errors import EngineFailed
from tutti.tasks.serving.process import answers, is_missing
from tutti.tasks.serving.registry import Model, checkpoint_id

log = logging.getLogger(__name__)


class ExternalEndpoint:
    """An endpoint of `models.yaml` that others run: tutti does not start or stop it."""

    def __init__(self, name: str, model: Model, catalog: Catalog) -> None:
        if model.endpoint is None:
            raise EngineFailed(f"model {name!r} has no endpoint")
        self.name, self.model = name, model
        self.entries = {name: model}
        """Entries of the registry that it serves; those besides its own ask it otherwise."""
        # Its identity is its address and name: its weights cannot be read.
        self.engine_id = checkpoint_id(model)
        detail = {"endpoint": model.endpoint, "served_name": self.served_name}
        catalog.enter_artifact(self.engine_id, detail, [])

    @property
    def served_name(self) -> str:
        """The model's name at the endpoint."""
        return self.model.served_name or self.name

    @property
    def address(self) -> EngineAddress:
        """The endpoint's address."""
        assert self.model.endpoint is not None, "checked when it was made"
        return EngineAddress(self.engine_id, self.model.endpoint, self.served_name)

    def start(self) -> EngineAddress:
        """Check that its key is set, and that /health answers if it is an engine with /metrics.

        Without /metrics the gateway schedules its calls by their count, which is warned of.

        Raises EngineFailed.
        """
        model, entry = self.model, f"models.{self.name}"
        if model.api_key_env is not None and not os.environ.get(model.api_key_env, "").strip():
            raise EngineFailed(f"{entry}.api_key_env: {model.api_key_env} is not set")
        url = (model.endpoint or "").rstrip("/").removesuffix(model.api_path)
        if model.metrics and is_missing(f"{url}/metrics"):
            log.warning(
                "%s.metrics: %s/metrics answers HTTP 404: calls are scheduled by count, and its "
                "cache and load are not measured; `metrics: false` says so, `max_calls` sets how "
                "many at a time",
                entry,
                url,
            )
        elif model.metrics and not answers(f"{url}/health"):
            raise EngineFailed(f"{entry}.endpoint: {url}/health does not answer")
        return self.address

    def stop(self) -> None:
        """Do nothing: tutti did not start it."""

    def reset(self) -> None:
        """Do nothing: its cache cannot be reset, so a cell may find prefixes of the previous
        cell."""

    async def watch(self) -> None:
        """Wait forever: the gateway checks whether it answers."""
        await asyncio.Event().wait()


def engine_of(
    name: str, model: Model, catalog: Catalog, trained_by: str | None = None
) -> Engine | ExternalEndpoint:
    """The server of a registry's model; `trained_by` is as `Engine` has it. Raises RegistryError,
    EngineFailed."""
    return (
        Engine(name, model, catalog, trained_by=trained_by)
        if model.endpoint is None
        else ExternalEndpoint(name, model, catalog)
    )
