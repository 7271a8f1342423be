"""Load a LoRA adapter into a running vLLM."""

from pathlib import Path

import aiohttp

from tutti.tasks.serving.errors import EngineFailed

LOAD_TIMEOUT_S = 60.0


async def load_adapter(engine_url: str, name: str, folder: Path) -> None:
    """Serve the adapter in `folder` as model `name`, replacing an older one of that name.

    Raises EngineFailed with the engine's answer.
    """
    timeout = aiohttp.ClientTimeout(total=LOAD_TIMEOUT_S)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session:
            body = {"lora_name": name, "lora_path": str(folder), "load_inplace": True}
            async with session.post(f"{engine_url}/v1/load_lora_adapter", json=body) as answer:
                text = await answer.text()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise EngineFailed(f"loading {name}: {type(error).__name__}: {error}") from error
    if answer.status != 200:
        raise EngineFailed(f"loading {name} from {folder}: HTTP {answer.status}: {text}")
