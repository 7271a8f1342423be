"""How served models are called, and one call to check that each answers."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp

from tutti.tasks.serving.engine import Engine, engine_lines
from tutti.tasks.serving.errors import ServingError

if TYPE_CHECKING:
    from rich.console import Console

TIMEOUT_S = 120.0
"""Time limit: the first call of an engine on a CPU compiles kernels."""
QUESTION = {"role": "user", "content": "Say hello."}


@dataclass(frozen=True)
class FirstAnswer:
    """A model's answer to one call."""

    model: str
    text: str
    seconds: float


async def call_once(gateway_url: str, model: str) -> FirstAnswer:
    """Ask `model` for a few tokens through the gateway. Raises ServingError if it refuses, does not
    answer, or answers without a choice."""
    body = {"model": model, "messages": [QUESTION], "max_tokens": 16}
    url = f"{gateway_url}/v1/chat/completions"
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    started = time.monotonic()
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(url, json=body) as response,
        ):
            if response.status != 200:
                said = (await response.text())[:300]
                raise ServingError(f"{model} refused a call: HTTP {response.status}: {said}")
            message = (await response.json())["choices"][0]["message"]
    except (aiohttp.ClientError, TimeoutError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ServingError(f"{model} did not answer a call at {url}: {reason}") from error
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ServingError(f"{model} answered without a choice: {error!r}") from error
    return FirstAnswer(model, message.get("content") or "", time.monotonic() - started)


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
    body = json.dumps({"model": called, "messages": [QUESTION]})
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
    """Print where the models are reached."""
    also = f"; search at {address['search']}" if address["search"] else ""
    words = f"{names} answers at {address['url']}{also}"
    print(json.dumps({"model": names, **address}) if how == "json" else words, flush=True)


def show_engines(console: "Console", engines: Iterable[Engine]) -> None:
    """Print what is about to be started, a line an engine: server, device, fit and GPUs.

    Raises RegistryError where they do not fit, or a command is refused.
    """
    for name, line in engine_lines(engines).items():
        console.print(f"engine {name}: {line}", markup=False, highlight=False)
