"""Shared by `tutti gateway` and ``python -m tutti.tasks.serving.gateway``.

Reads the tokens and engines that the settings name, and serves until a signal.
"""

import asyncio
import gc
import os
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tutti.storage import Home
from tutti.tasks.platform import explain
from tutti.tasks.serving.gateway.app import Gateway
from tutti.tasks.serving.gateway.calls.access import Access
from tutti.tasks.serving.gateway.endpoints.endpoint import EndpointConfig
from tutti.tasks.serving.gateway.settings import GatewaySettings
from tutti.tasks.serving.metering.prices import read_prices
from tutti.tasks.serving.scheduling import make_policy
from tutti.tasks.serving.wire.server import stop_on_signals


@contextmanager
def token_file(folder: Path, port: int, token: str | None) -> Iterator[Path | None]:
    """Store `token` in a file for the block's duration; without a token, do nothing. Raises OSError
    if it cannot be written."""
    if token is None:
        yield None
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"admin-{port}.token"
    path.unlink(missing_ok=True)  # of a gateway that was killed; its mode may differ
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(token + "\n")
        yield path
    finally:
        path.unlink(missing_ok=True)


SWITCH_S = 0.001
"""Thread switch interval: how long the loop waits for the store's writer to release the GIL; 5 ms
by default."""


def check_settings(settings: GatewaySettings) -> None:
    """Raise ValueError for invalid policy options, PriceError for an invalid price file."""
    make_policy(settings.policy, settings.policy_options)
    read_prices(settings.prices)


def access_of(settings: GatewaySettings) -> Access:
    """Return the tokens from the environment, and the budget. Raises AccessError."""
    return Access.of_environment(settings.budget_usd, (*settings.allow_host, settings.host))


def journal_path(home: Home, port: int) -> Path:
    """Return the path at which the gateway at `port` stores its list of programs."""
    return Path(str(home)) / "gateway" / f"programs-{port}.jsonl"


def read_engines(given: Iterable[str]) -> list[EndpointConfig]:
    """Parse engines given as URL, ID=URL or JSON. Raises ValueError that names the invalid one."""
    return [_engine(text, place) for place, text in enumerate(given)]


async def serve(
    gateway: Gateway,
    endpoints: list[EndpointConfig],
    ready: Callable[[int, Path | None], None],
    beside: Coroutine[Any, Any, None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, or until `beside` raises. `ready` is called with the port and
    the file of the generated admin token, if any. Raises OSError if it cannot listen, ValueError
    for an endpoint, and what `beside` raises."""
    switch_s = sys.getswitchinterval()
    waits: list[asyncio.Task[Any]] = []
    if beside is not None:
        waits.append(asyncio.create_task(beside))
    try:
        settings = gateway.settings
        port = await gateway.start(settings.host, settings.port, endpoints)
        gc.freeze()
        sys.setswitchinterval(SWITCH_S)
        gc.disable()  # the gateway collects garbage itself, a little at a time
        token = token_file(gateway.folder, port, gateway.access.token_to_show)
        with stop_on_signals() as stopping, token as file:
            ready(port, file)
            waits.append(asyncio.create_task(stopping.wait()))
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        for task in waits:
            task.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        await gateway.stop()
        sys.setswitchinterval(switch_s)
        gc.enable()
        gc.unfreeze()


def _engine(text: str, place: int) -> EndpointConfig:
    try:
        if text.startswith("{"):
            return EndpointConfig.model_validate_json(text)
        name, equals, url = text.partition("=")
        if equals and "://" not in name:
            return EndpointConfig(url=url, id=name)
        return EndpointConfig(url=text)
    except ValidationError as error:
        raise ValueError(f"--engine number {place + 1}: {explain(error)}") from None


class WithoutPandas:
    """A module finder that reports pandas as missing. pyarrow imports pandas with the first row,
    although the gateway makes no data frame. The import blocks all calls for half a second and
    takes 50 MB."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Raise ModuleNotFoundError for pandas; leave other modules to the other finders."""
        if name == "pandas":
            raise ModuleNotFoundError("the gateway runs without pandas", name=name)


@contextmanager
def without_pandas() -> Iterator[None]:
    sys.meta_path.insert(0, WithoutPandas)
    try:
        yield
    finally:
        sys.meta_path.remove(WithoutPandas)
