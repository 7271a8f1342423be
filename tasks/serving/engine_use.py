"""Whether kept engines are in use: by calls through their keeper's gateway, or by another run."""

from collections.abc import Sequence

from tutti.storage import Catalog
from tutti.tasks.serving.engine import Engine
from tutti.tasks.serving.engines import is_used
from tutti.tasks.serving.external_endpoint import ExternalEndpoint
from tutti.tasks.serving.services import GatewayClient


class EngineUse:
    """The use of a keeper's engines."""

    def __init__(
        self,
        catalog: Catalog,
        gateway: GatewayClient,
        engines: Sequence[Engine | ExternalEndpoint],
    ) -> None:
        self._catalog, self._gateway = catalog, gateway
        self._urls = [each.address.url for each in engines if isinstance(each, Engine)]
        self._calls = -1

    def is_busy(self) -> bool:
        """Whether a run uses one now, or a call ran since the last question. Raises GatewayFailed,
        StoreError."""
        state = self._gateway.health()
        calls, self._calls = self._calls, state["recorded"] + state["unrecorded"]
        if state["held"] or state["running"] or calls != self._calls:
            return True
        return any(is_used(self._catalog, url) for url in self._urls)
