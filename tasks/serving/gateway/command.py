"""Shared by `tutti gateway` and ``python -m tutti.tasks.serving.gateway``.

Reads the settings, tokens and engines that their options name, and serves until a signal.
"""

import asyncio
import gc
import json
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tutti.storage import Home
from tutti.tasks.config import explain
from tutti.tasks.serving.gateway.admin.access import Access
from tutti.tasks.serving.gateway.admin.admin_token import token_file
from tutti.tasks.serving.gateway.app import Gateway
from tutti.tasks.serving.gateway.endpoint import EndpointConfig
from tutti.tasks.serving.gateway.options import GatewayOptions
from tutti.tasks.serving.gateway.settings import Settings
from tutti.tasks.serving.metering.prices import PRICE_BOOK, PriceBook, read_price_book
from tutti.tasks.serving.scheduling import make_policy
from tutti.tasks.serving.wire.limits import ServerLimits

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
SWITCH_S = 0.001
"""Thread switch interval: how long the loop waits for the store's writer to release the GIL; 5 ms
by default."""


def settings_of(options: GatewayOptions, record_tokens: bool = False) -> Settings:
    """The gateway's settings; `record_tokens` is set if a model of the registry asks for it.

    Raises ValueError for invalid policy options, PriceError.
    """
    return Settings(
        name=options.name,
        policy=options.policy,
        options=read_policy(options.policy, options.option, options.limit),
        hold_s=options.hold_s,
        max_held=options.max_held,
        record_tokens=options.record_tokens or record_tokens,
        slots=options.slots,
        all_events=options.all_events,
        prices=read_prices(options.prices),
        engine_hosts=options.allow_engine,
        engine_keys=options.engine_key,
        server=ServerLimits(body_bytes=options.body_mib * 2**20),
    )


def access_of(options: GatewayOptions) -> Access:
    """Tokens from the environment, and the budget. Raises AccessError."""
    return Access.of_environment(options.budget_usd, (*options.allow_host, options.host))


def journal_path(home: Home, port: int) -> Path:
    """Where the gateway at `port` stores its list of programs."""
    return Path(str(home)) / "gateway" / f"programs-{port}.jsonl"


def read_engines(given: Iterable[str]) -> list[EndpointConfig]:
    """Parse engines given as URL, ID=URL or JSON. Raises ValueError that names the invalid one."""
    return [_engine(text, place) for place, text in enumerate(given)]


def read_policy(name: str, given: Sequence[str], limit: int | None) -> dict[str, Any]:
    """The options of the policy `name`, validated. Raises ValueError with option and value."""
    options: dict[str, Any] = {}
    for text in given:
        option, equals, value = text.partition("=")
        if not equals or not option:
            raise ValueError(f"--option must be NAME=VALUE, not {text!r}")
        options[option] = _value(value)
    if limit is not None:
        options["limit"] = limit
    if name == "cap" and "limit" not in options:
        raise ValueError("--policy cap needs --limit, the programs that may run at once")
    make_policy(name, options)
    return options


def read_prices(path: Path | None) -> PriceBook | None:
    """Read the price book at `path`, or this project's if it has one. Raises PriceError."""
    if path is None and not PRICE_BOOK.is_file():
        return None
    return read_price_book(path or PRICE_BOOK)


async def serve(
    gateway: Gateway,
    host: str,
    port: int,
    endpoints: list[EndpointConfig],
    ready: Callable[[int, Path | None], None],
    beside: Coroutine[Any, Any, None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, or until `beside` raises. `ready` is called with the port and
    the file of the generated admin token, if any.

    Raises OSError if it cannot listen, ValueError for an endpoint, and what `beside` raises.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stopping.set)
    waits = [asyncio.create_task(stopping.wait())]
    switch_s = sys.getswitchinterval()
    if beside is not None:
        waits.append(asyncio.create_task(beside))  # type: ignore[arg-type]
    try:
        port = await gateway.start(host, port, endpoints)
        gc.freeze()
        sys.setswitchinterval(SWITCH_S)
        gc.disable()  # the gateway collects garbage itself, a little at a time
        with token_file(gateway.folder, port, gateway.access.token_to_show) as file:
            ready(port, file)
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


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
