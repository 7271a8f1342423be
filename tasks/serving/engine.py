"""Start vLLM for a registry entry, wait until it answers, and guarantee that it is stopped.

The engine runs in the models environment (TUTTI_MODELS_PYTHON, else ``.venv-models``); the
platform talks to it over HTTP only.
"""

import asyncio
import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tutti.storage import Catalog, artifact_id
from tutti.tasks.gpus import GpuClaim, GpuLease, lease_gpus
from tutti.tasks.project import IS_SOURCE, models_python_path
from tutti.tasks.serving.adapters import MOST_ADAPTERS
from tutti.tasks.serving.errors import EngineFailed, ModelsEnvironmentMissing, ServingError
from tutti.tasks.serving.prefix_cache import reset_prefix_cache
from tutti.tasks.serving.process import Child, answers, claim_port
from tutti.tasks.serving.registry import Model, checkpoint_id, require_weights

BLOCK_TOKENS = 32  # vLLM's CPU backend takes multiples of 32
WATCH_S = 0.5
ENGINE_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_SERVER_DEV_MODE": "1",  # for resetting the cache; the engine listens on loopback only
    "VLLM_LOGGING_LEVEL": "INFO",
    "OMP_WAIT_POLICY": "PASSIVE",  # idle threads leave the cores to tools and training
    # A core is left for the API server, the gateway and the agents.
    "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) - 1))),
    # With it, the executor below runs in the engine's own process. By default vLLM uses a worker
    # process on a CPU, and both spin on shared memory: that alone takes two cores, and other
    # processes on the call's path are delayed by half a second at a time (docs/log.md).
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "PYTHONUNBUFFERED": "1",
}
EXECUTOR = "uni"


def models_python() -> Path:
    """The Python of the models environment. Raises ModelsEnvironmentMissing with what to do."""
    python = models_python_path()
    if not python.is_file():
        creation = "run `make setup`" if IS_SOURCE else "`tutti doctor` shows how to create it"
        raise ModelsEnvironmentMissing(
            f"no models environment at {python}; {creation}, or set TUTTI_MODELS_PYTHON to "
            "a Python that has vLLM"
        )
    return python


def require_engines(models: Iterable[Model]) -> None:
    """Check that engines can be started, before minutes of other work.

    Raises RegistryError if weights are missing, ModelsEnvironmentMissing.
    """
    for folder in filter(None, (model.checkpoint for model in models)):
        require_weights(folder)
        models_python()


@dataclass(frozen=True)
class EngineAddress:
    """The URL of an engine and its id."""

    engine_id: str
    url: str
    served_name: str


class Engine:
    """One vLLM server. `start` blocks until it is ready; `stop` ends it and all its processes."""

    def __init__(
        self,
        name: str,
        model: Model,
        catalog: Catalog,
        port: int | None = None,
        trained_by: str | None = None,
    ) -> None:
        """`trained_by`: the training that changes its weights while it runs, so that it is no
        engine of the model as it stands and serves no other entry."""
        if model.engine is None or model.checkpoint is None:
            raise EngineFailed(f"model {name!r} has no checkpoint for tutti to serve")
        self.name = name
        self.model = model
        self.entries = {name: model}
        """Entries of the registry that it serves; those besides its own ask it otherwise."""
        self.settings = model.engine
        self.catalog = catalog
        self.port = claim_port(port)
        checkpoint = checkpoint_id(model)
        settings = self.settings.model_dump(exclude={"start_timeout_s", "gpus"})
        content = {"server": "vllm", "settings": settings, "context": model.context_tokens}
        content |= {} if trained_by is None else {"trained_by": trained_by}
        self.engine_id = artifact_id("engine", content, [checkpoint])
        catalog.enter_artifact(checkpoint, {"folder": str(model.checkpoint)})
        catalog.enter_artifact(self.engine_id, content, [checkpoint])
        self._child: Child | None = None
        self._leased = ExitStack()
        self.gpus: GpuLease | None = None
        """The cards that it holds while it runs, where its entry names any."""

    @property
    def address(self) -> EngineAddress:
        """The engine's address."""
        return EngineAddress(self.engine_id, f"http://127.0.0.1:{self.port}", self.name)

    def start(self) -> EngineAddress:
        """Start vLLM and wait until it is healthy. Raises EngineFailed with the end of its log,
        GpuError, and ModelsEnvironmentMissing before anything is held."""
        command = self._command()
        try:
            if self.settings.gpus is not None:
                claim = GpuClaim(self.settings.gpus, work=f"engine {self.name}")
                self.gpus = self._leased.enter_context(lease_gpus(self.catalog, claim))
            child = Child("vllm", command, ENGINE_ENVIRONMENT, self.catalog, self.gpus)
            self._child = child
            child.wait_ready(
                lambda: answers(f"{self.address.url}/health"), self.settings.start_timeout_s
            )
        except ServingError as error:
            self.stop()
            raise EngineFailed(str(error)) from None
        except BaseException:
            self.stop()
            raise
        return self.address

    def stop(self) -> None:
        """Stop the engine if it runs, and give its cards back."""
        if self._child is not None:
            self._child.stop()
            self._child = None
        self._leased.close()
        self.gpus = None

    async def watch(self) -> None:
        """Block while the engine runs. Raises EngineFailed when it dies."""
        child = self._child
        if child is None:
            raise EngineFailed("the engine was not started")
        while (code := child.poll()) is None:
            await asyncio.sleep(WATCH_S)
        raise EngineFailed(
            f"the engine died while serving (exit code {code}); {child.last_words()}\n"
            "Finished samples are kept; run the same command again to resume."
        )

    def reset(self) -> None:
        """Empty the prefix cache once no request runs. Raises EngineFailed."""
        reset_prefix_cache(self.address.url)

    def __enter__(self) -> EngineAddress:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _command(self) -> list[str]:
        settings = self.settings
        options = {
            "model": self.model.checkpoint,
            "served-model-name": self.name,
            "host": "127.0.0.1",
            "port": self.port,
            "dtype": "bfloat16",
            "max-model-len": self.model.context_tokens,
            "block-size": BLOCK_TOKENS,
            "num-gpu-blocks-override": settings.kv_blocks,
            "max-num-seqs": settings.max_sequences,
            "max-num-batched-tokens": max(settings.max_batched_tokens, self.model.context_tokens),
            "distributed-executor-backend": EXECUTOR,
            "tool-call-parser": "hermes",
            "generation-config": "vllm",
        }
        flags = ["enforce-eager", "enable-prefix-caching", "enable-prompt-tokens-details"]
        # On the CPU vLLM dies of a prompt that is read in parts and has a seed: a generator of
        # random numbers there has no offset to set back.
        flags += ["no-enable-chunked-prefill"]
        flags += ["enable-auto-tool-choice", "disable-uvicorn-access-log"]
        if settings.lora:
            # One slot more than adapters: in a mixed batch the last slot's adapter answers for the
            # base too, on the CPU.
            flags += ["enable-lora", "max-lora-rank=16", f"max-loras={MOST_ADAPTERS + 1}"]
        command = [str(models_python()), "-m", "vllm.entrypoints.openai.api_server"]
        for name, value in options.items():
            command += [f"--{name}", str(value)]
        return command + [f"--{flag}" for flag in flags]
