"""The model registry: `models.yaml`, validated. Unknown names are an error that lists the known."""

from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from storage import content_hash
from tasks.serving.errors import RegistryError


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Prices(_Strict):
    """USD per million tokens."""

    prompt: float = Field(0.0, ge=0)
    cached: float = Field(0.0, ge=0)
    completion: float = Field(0.0, ge=0)

    def cost_usd(self, prompt: int, cached: int, completion: int) -> float:
        """Cost of one call; cached prompt tokens are charged at their own price."""
        fresh = (prompt - cached) * self.prompt
        return (fresh + cached * self.cached + completion * self.completion) / 1e6


class EngineSettings(_Strict):
    """How tutti starts vLLM for a model."""

    kv_blocks: int = Field(ge=8, description="KV cache size in blocks of 32 tokens")
    max_sequences: int = Field(32, ge=1, description="most requests vLLM runs at once")
    max_batched_tokens: int = Field(2048, ge=32, description="most tokens in one step")
    lora: bool = Field(False, description="allow LoRA adapters to be loaded at run time")
    start_timeout_s: float = Field(300.0, gt=0, description="give up on a start after this")


class Model(_Strict):
    """One registry entry."""

    provider: Literal["vllm", "openai"]
    endpoint: str | None = Field(None, description="base URL, for an endpoint someone else serves")
    api_key_env: str | None = Field(None, description="environment variable that holds the key")
    served_name: str | None = Field(None, description="the model's name at its endpoint")
    checkpoint: Path | None = Field(None, description="weights that tutti serves with vLLM")
    dialect: Literal["hermes", "openai"] = "openai"
    context_tokens: int = Field(ge=64)
    tools: bool = True
    prices: Prices | None = Field(None, description="left out, those of deployments/prices.yaml")
    max_calls: int | None = Field(None, ge=1, description="most calls in flight at the endpoint")
    record_tokens: bool = Field(
        False, description="keep the answers' token ids and log probabilities, for training"
    )
    engine: EngineSettings | None = None

    @model_validator(mode="after")
    def _one_source(self) -> "Model":
        if (self.endpoint is None) == (self.checkpoint is None):
            raise ValueError("give either `endpoint` or `checkpoint`")
        if self.checkpoint is not None and self.engine is None:
            raise ValueError("a model with a `checkpoint` needs `engine` settings")
        return self


class _Registry(_Strict):
    models: dict[str, Model]


def read_registry(path: Path) -> dict[str, Model]:
    """All entries of `path`; relative checkpoints are taken from its project folder.

    Raises RegistryError with file, field and value.
    """
    try:
        content = yaml.safe_load(path.read_text())
        registry = _Registry.model_validate(content)
    except FileNotFoundError:
        raise RegistryError(f"{path}: no such file; name one with --models") from None
    except yaml.YAMLError as error:
        raise RegistryError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        raise RegistryError(f"{path}: {explain(error)}") from error
    root = path.resolve().parent.parent
    return {name: _absolute(model, root) for name, model in registry.models.items()}


def pick_model(path: Path, name: str) -> Model:
    """One entry. Raises RegistryError that lists the known names."""
    models = read_registry(path)
    if name not in models:
        raise RegistryError(f"{path}: no model {name!r}; known: {', '.join(sorted(models))}")
    return models[name]


def explain(error: ValidationError) -> str:
    """A validation error in one line: each field, what is wrong, and the value given."""
    return "; ".join(
        f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']} (given: {e['input']!r:.80})"
        for e in error.errors()
    )


def checkpoint_id(model: Model) -> str:
    """Content id of a served checkpoint: its weights, configuration and tokenizer.

    Raises RegistryError when the folder or its weights are missing.
    """
    folder = model.checkpoint
    if folder is None:
        return f"endpoint:{content_hash([model.endpoint, model.served_name])}"
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise RegistryError(f"{folder}: no model.safetensors there; `tutti train pocket` makes one")
    names = ("model.safetensors", "config.json", "tokenizer.json", "chat_template.jinja")
    files = [folder / name for name in names if (folder / name).is_file()]
    return f"checkpoint:{content_hash([[f.name, content_hash(f.read_bytes())] for f in files])}"


def _absolute(model: Model, root: Path) -> Model:
    if model.checkpoint is None or model.checkpoint.is_absolute():
        return model
    return model.model_copy(update={"checkpoint": root / model.checkpoint})
