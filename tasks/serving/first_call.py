"""One call to a model through its gateway, to check that it answers."""

import time
from dataclasses import dataclass

import aiohttp

from tutti.tasks.serving.errors import ServingError

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
