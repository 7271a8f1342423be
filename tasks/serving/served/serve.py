"""Serve models for a while: where they are reached, one call to check each, and how long.

They are served for a number of minutes, until a signal, or until an engine dies. With kept engines
the minutes count from their last use, by calls or by another run; those whose entries say
``sleep: true`` sleep while they are not used.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp

from tutti.storage import Catalog
from tutti.tasks.serving.engines.engine import Engine, ExternalEndpoint, engine_lines
from tutti.tasks.serving.engines.warm import IdleSleep, is_used
from tutti.tasks.serving.errors import ServingError
from tutti.tasks.serving.served.probing import QUESTION, TIMEOUT_S, Asker
from tutti.tasks.serving.served.services import GatewayClient

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class FirstAnswer:
    """A model's answer to one call."""

    model: str
    text: str
    seconds: float


async def call_once(gateway_url: str, model: str) -> FirstAnswer:
    """Ask `model` for a few tokens through the gateway. Raises ServingError if it refuses, does not
    answer, or answers without a choice."""
    started = time.monotonic()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)) as session:
        response = await Asker(session, gateway_url, model).ask(QUESTION, max_tokens=16)
    if response.failure or not response.body.get("choices"):
        why = response.failure or "an answer without a choice"
        raise ServingError(f"{model} answers no call: {why}")
    text = response.message.get("content") or ""
    return FirstAnswer(model, text, time.monotonic() - started)


def served_page(
    url: str, names: Mapping[str, str], answers: Sequence[FirstAnswer], search: str | None
) -> str:
    """Markdown on how to call the models by their names in the registry; `names`: these to the
    served ones.

    `url` is the gateway's, with ``/v1``.
    """
    checked = {answer.model: f"{answer.seconds:.1f} s" for answer in answers}
    rows = [
        f"| {name} | `{served}` | {checked.get(name, 'not called')} |"
        for name, served in names.items()
    ]
    called = next(iter(names))
    body = json.dumps({"model": called, "messages": QUESTION})
    lines = [
        f"Base URL of OpenAI-compatible clients: `{url}`, on the machine that runs this flow.",
        "",
        "| model | served as | first call |",
        "|---|---|---|",
        *rows,
        "",
        f"    curl -s {url}/chat/completions -H 'Content-Type: application/json' -d '{body}'",
    ]
    if search is not None:
        question = json.dumps({"queries": ["largest elements of a heap"], "topk": 3})
        command = f"curl -s {search}/retrieve -H 'Content-Type: application/json' -d '{question}'"
        lines += ["", "Search over the standard library's documentation:", "", f"    {command}"]
    return "\n".join(lines)


def announce_served(names: str, address: Mapping[str, str | None], how: str) -> None:
    also = f"; search at {address['search']}" if address["search"] else ""
    words = f"{names} answers at {address['url']}{also}"
    print(json.dumps({"model": names, **address}) if how == "json" else words, flush=True)


def show_engines(console: "Console", engines: Iterable[Engine]) -> None:
    """Print what is about to be started, a line an engine: server, device, fit and GPUs.

    Raises RegistryError where they do not fit, or a command is refused.
    """
    for name, line in engine_lines(engines).items():
        console.print(f"engine {name}: {line}", markup=False, highlight=False)


SHOW_S = 1.0


async def serve_for(
    engines: Sequence[Engine | ExternalEndpoint],
    minutes: float,
    stopped: asyncio.Event,
    show: Callable[[float, float], None],
    is_busy: Callable[[], bool] | None = None,
) -> None:
    """Wait until `minutes` have passed (0: no limit) or `stopped` is set.

    With `is_busy`, asked each second on a thread, until `minutes` have passed since it last was
    true. `show` is called with the minutes and the limit. Raises EngineFailed when an engine dies.
    """
    waiting = [asyncio.create_task(engine.watch()) for engine in engines]
    waiting.append(asyncio.create_task(_wait(minutes, stopped, show, is_busy)))
    try:
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
    for each in done:
        each.result()


async def _wait(
    minutes: float,
    stopped: asyncio.Event,
    show: Callable[[float, float], None],
    is_busy: Callable[[], bool] | None,
) -> None:
    started = time.monotonic()
    while not stopped.is_set():
        if is_busy is not None and await asyncio.to_thread(is_busy):
            started = time.monotonic()
        served = (time.monotonic() - started) / 60
        left_s = (minutes - served) * 60
        if minutes:
            show(min(served, minutes), minutes)
            if left_s <= 0:
                return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), min(SHOW_S, left_s) if minutes else SHOW_S)


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
