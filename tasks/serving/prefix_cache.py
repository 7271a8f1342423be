"""Empty the prefix cache of an engine that tutti started, so that cells do not share prefixes.

In: a vLLM that runs with ``VLLM_SERVER_DEV_MODE``, an SGLang, or a llama.cpp with a path for slots.
Out: an empty prefix cache, once no request runs: the blocks of running requests are kept.
"""

import json
import re
import time
import urllib.error
import urllib.request

from tutti.tasks.serving.engines.settings import ServerKind
from tutti.tasks.serving.errors import EngineFailed

IDLE_TIMEOUT_S, ASK_TIMEOUT_S, POLL_S = 60.0, 20.0, 0.1
RUNNING = {
    "vllm": r"vllm:num_requests_(?:running|waiting)",
    "sglang": r"sglang:num_(?:running_reqs|queue_reqs)",
    "llama.cpp": r"llamacpp:requests_(?:processing|deferred)",
}
BUSY = {
    server: re.compile(rf"^{names}(?:\{{[^}}]*\}})? ([0-9.eE+-]+)$", re.MULTILINE)
    for server, names in RUNNING.items()
}


def reset_prefix_cache(url: str, server: ServerKind = "vllm") -> None:
    """Wait until the engine at `url` (without /v1) is idle, then empty its cache.

    Raises EngineFailed if it does not answer, or is busy for more than a minute.
    """
    deadline = time.monotonic() + IDLE_TIMEOUT_S
    while any(float(count) for count in BUSY[server].findall(_ask(f"{url}/metrics", "GET"))):
        if time.monotonic() > deadline:
            raise EngineFailed(f"{url} is still busy after {IDLE_TIMEOUT_S:.0f} s")
        time.sleep(POLL_S)
    if server == "llama.cpp":
        for slot in json.loads(_ask(f"{url}/slots", "GET")):
            _ask(f"{url}/slots/{slot['id']}?action=erase", "POST")
    else:
        _ask(f"{url}/{'flush_cache' if server == 'sglang' else 'reset_prefix_cache'}", "POST")


def _ask(url: str, method: str) -> str:
    request = urllib.request.Request(url, method=method)
    try:
        with urllib.request.urlopen(request, timeout=ASK_TIMEOUT_S) as answer:
            text: str = answer.read().decode()
            return text
    except (urllib.error.URLError, OSError) as error:
        raise EngineFailed(f"{method} {url}: {error}") from error
