"""Settings of a server for a model: `engine:` in a registry entry.

An omitted setting is the server's own choice on a GPU. On the CPU it is the value measured there
(`commands.cpu`).
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from tutti.tasks.platform import NOT_IN_ID, NotInId, Strict, file_hash, identity_of
from tutti.tasks.serving.errors import RegistryError

ServerKind = Literal["vllm", "sglang", "llama.cpp"]
Device = Literal["cuda", "rocm", "cpu"]
Scalar = bool | int | float | str

FLAG = re.compile(r"[a-z][a-z0-9-]*")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")
OURS = re.compile(r"TUTTI_|(CUDA|HIP|ROCR)_VISIBLE_DEVICES$|CUDA_DEVICE_ORDER$")
BLOCK_TOKENS = 32
"""vLLM's CPU backend takes multiples of 32."""


RESOLVED = NotInId("`EngineSettings.identity`, which resolves it")


def _flag(name: str) -> str:
    if not FLAG.fullmatch(name):
        raise ValueError(f"{name!r}: a flag is written as max-num-seqs, without leading dashes")
    return name


def _variable(name: str) -> str:
    if not VARIABLE.fullmatch(name):
        raise ValueError(f"{name!r} is no name of an environment variable")
    if OURS.match(name):
        raise ValueError(f"{name} is set by tutti; `gpus` says which GPUs the engine may use")
    if SECRET.search(name):
        raise ValueError(f"{name}: a secret stands in no file; set it where tutti runs")
    return name


class EngineSettings(Strict):
    """Settings of a server that tutti starts for a model. Tables and ids use `identity`."""

    server: Annotated[ServerKind, RESOLVED] = Field(
        "vllm", description="the server that is started"
    )
    device: Annotated[Literal["auto", "cuda", "rocm", "cpu"], RESOLVED] = Field(
        "auto", description="auto: what the models environment is built for"
    )
    gpus: Annotated[int | tuple[int | str, ...] | None, RESOLVED] = Field(
        None, description="so many GPUs, or these by index or uuid, leased while it runs"
    )
    tensor_parallel: int | None = Field(
        None, ge=1, description="GPUs that share each layer; left out, all of a pipeline's stage"
    )
    pipeline_parallel: int = Field(1, ge=1, description="stages that the layers are divided into")
    replicas: Annotated[int, NOT_IN_ID] = Field(
        1, ge=1, le=64, description="so many engines of it, each with GPUs of its own, in one pool"
    )
    dtype: str | None = Field(None, description="of weights and activations: bfloat16, float16")
    quantization: str | None = Field(None, description="left out, what the checkpoint says")
    kv_cache_dtype: str | None = Field(None, description="of the KV cache: fp8 halves it")
    memory_share: float | None = Field(
        None, gt=0, le=1, description="of each GPU's memory, for weights and KV cache"
    )
    kv_tokens: int | None = Field(None, ge=256, description="KV cache size in tokens")
    kv_blocks: int | None = Field(None, ge=8, description="KV cache size in blocks of 32 tokens")
    max_sequences: int | None = Field(None, ge=1, description="most requests it runs at once")
    max_batched_tokens: int | None = Field(None, ge=32, description="most tokens in one step")
    tool_parser: str | None = Field(
        None, description="reads tool calls; left out, by the model's family; none: no parser"
    )
    reasoning_parser: str | None = Field(
        None,
        description="parts reasoning from answers; left out, by the family; none: no parser",
    )
    chat_template: Path | None = Field(None, description="a Jinja file instead of the model's own")
    speculative: dict[str, Any] | None = Field(
        None, description="speculative decoding, in the server's own terms"
    )
    kv_offload_gb: float | None = Field(
        None, gt=0, description="GiB of main memory for KV blocks that the GPU has no room for"
    )
    lora: Annotated[bool, RESOLVED] = Field(
        False, description="allow LoRA adapters to be loaded at run time"
    )
    sleep: bool = Field(False, description="a kept engine gives its GPU memory back while idle")
    args: dict[Annotated[str, AfterValidator(_flag)], Scalar | list[Scalar] | dict[str, Any]] = (
        Field({}, description="more flags of the server; false writes its no- form")
    )
    environment: dict[Annotated[str, AfterValidator(_variable)], str] = Field(
        {}, description="environment variables of the server"
    )
    start_timeout_s: Annotated[float | None, NOT_IN_ID] = Field(
        None, gt=0, description="give up on a start after this; left out, 300 s, 1,800 s on a GPU"
    )

    @model_validator(mode="after")
    def _agree(self) -> "EngineSettings":
        sizes = {"memory_share", "kv_tokens", "kv_blocks"}
        given = sorted(name for name in sizes if getattr(self, name) is not None)
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} both give the KV cache's size; keep one")
        if self.gpus is not None and self.device == "cpu":
            raise ValueError("gpus: an engine with `device: cpu` uses none")
        if self.device == "cpu" and self.parallel > 1:
            raise ValueError("tensor_parallel, pipeline_parallel: are for GPUs")
        if (count := self.gpu_count) is None:
            return self
        if self.tensor_parallel is None and count % self.pipeline_parallel:
            raise ValueError(
                f"gpus: {count} cannot be divided into {self.pipeline_parallel} pipeline stages"
            )
        if count != self.parallel:
            raise ValueError(
                f"gpus: {count}, but tensor_parallel x pipeline_parallel is {self.parallel}; "
                "leave tensor_parallel out to use them all"
            )
        if self.replicas > 1 and not isinstance(self.gpus, int):
            raise ValueError("gpus: replicas need a number of GPUs each, not names")
        return self

    @property
    def gpu_count(self) -> int | None:
        """Number of GPUs of one engine; None if the entry does not define it."""
        return self.gpus if self.gpus is None or isinstance(self.gpus, int) else len(self.gpus)

    @property
    def tensor_size(self) -> int:
        """Number of GPUs that share each layer."""
        if self.tensor_parallel is not None:
            return self.tensor_parallel
        return max(1, (self.gpu_count or 1) // self.pipeline_parallel)

    @property
    def parallel(self) -> int:
        """Number of GPUs that one engine computes on."""
        return self.tensor_size * self.pipeline_parallel

    def timeout_s(self, device: Device) -> float:
        """Return the seconds after which a start is given up."""
        return self.start_timeout_s or (300.0 if device == "cpu" else 1800.0)

    @property
    def cache_tokens(self) -> int | None:
        """The KV cache in tokens, rounded up to whole blocks of 32; None: the server's choice."""
        if self.kv_tokens is None:
            return None if self.kv_blocks is None else self.kv_blocks * BLOCK_TOKENS
        return -(-self.kv_tokens // BLOCK_TOKENS) * BLOCK_TOKENS

    def identity(self, device: Device) -> dict[str, Any]:
        """Return the settings that determine an engine's answers and speed, for its id. Its
        location, number of copies and start timeout are excluded. Omitted settings are not in it,
        so that a new setting of tutti does not change the ids of engines without it."""
        given = identity_of(self, defaults=False)
        if self.chat_template is not None:
            try:
                given["chat_template"] = file_hash(self.chat_template)
            except OSError as error:
                where = f"engine.chat_template: {self.chat_template}"
                raise RegistryError(f"{where}: {error.strerror}") from error
        if device == "cpu":
            defaults = {"max_sequences": 32, "max_batched_tokens": 2048}
            return {"kv_blocks": None, **defaults, "lora": self.lora, **given}
        return {"device": device, "lora": self.lora, "tensor_parallel": self.tensor_size, **given}
