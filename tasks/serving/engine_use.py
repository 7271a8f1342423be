"""Whether kept engines are in use: by calls through their keeper's gateway, or by another run.

Those whose entries say ``sleep: true`` sleep while they are not.
"""

from collections.abc import Sequence

from tutti.storage import Catalog
from tutti.tasks.serving.engine import Engine
from tutti.tasks.serving.engines import IdleSleep, is_used
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
        started = [each for each in engines if isinstance(each, Engine)]
        self._urls = [each.address.url for each in started]
        # vLLM alone has the calls for it
        can_sleep = [each for each in started if each.settings.sleep]
        self._sleep = IdleSleep(
            [each.address.url for each in can_sleep if each.settings.server == "vllm"]
        )
        self._calls = -1

    def is_busy(self) -> bool:
        """Whether a run uses one now, or a call ran since the last question; by that they sleep and
        wake. Not for use in an event loop. Raises GatewayFailed, StoreError, EngineFailed."""
        busy = self._is_busy()
        self._sleep.follow(busy)
        return busy

    def _is_busy(self) -> bool:
        state = self._gateway.health()
        calls, self._calls = self._calls, state["recorded"] + state["unrecorded"]
        if state["held"] or state["running"] or calls != self._calls:
            return True
        return any(is_used(self._catalog, url) for url in self._urls)
