"""The model that is trained: loaded, with an adapter or whole, and its log probabilities."""

import resource
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.utils.checkpoint
from transformers import AutoModelForCausalLM, AutoTokenizer

from tutti.tasks.training.settings import CHUNK_ELEMENTS, LoraSettings, TrainerSettings
from tutti.tasks.training.trainer.batching import MicroBatch

Tensor = Any


class Policy:
    """A causal language model under training."""

    def __init__(self, settings: TrainerSettings) -> None:
        """Load it, and its tokenizer, from the base's folder."""
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.tokenizer = AutoTokenizer.from_pretrained(settings.base)
        self.model = _load(settings.base, self.device)
        self.lora = settings.lora
        if settings.gradient_checkpointing:
            self.model.gradient_checkpointing_enable({"use_reentrant": False})
            if settings.lora is not None:  # else no gradient reaches the first block
                self.model.enable_input_require_grads()
        if settings.lora is not None:
            self.model = _with_adapter(self.model, settings.lora)
        self._half = settings.dtype != "float32"
        self._reference: Any = None
        self._base = settings.base

    @property
    def parameters(self) -> list[Any]:
        """What is trained."""
        return [each for each in self.model.parameters() if each.requires_grad]

    @property
    def size(self) -> int:
        """All weights, trained or not."""
        return sum(each.numel() for each in self.model.parameters())

    def log_probs(self, batch: MicroBatch) -> Tensor:
        """[T] log probabilities of the trained tokens, in float32, with their graph."""
        return self._log_probs(self.model, batch, None)

    def measured(self, batch: MicroBatch) -> tuple[Tensor, Tensor]:
        """`log_probs`, and [] the sum of the entropies at the trained tokens, in nats."""
        entropies: list[Tensor] = []
        logp = self._log_probs(self.model, batch, entropies)
        return logp, torch.stack(entropies).sum()

    @property
    def peak_mb(self) -> float:
        """Most memory so far, in 10^6 bytes: allocated on the GPU, else resident of the process."""
        if self.device.type == "cuda":
            return float(torch.cuda.max_memory_allocated(self.device) / 1e6)
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most * (1 if sys.platform == "darwin" else 1024) / 1e6

    @property
    def device_name(self) -> str | None:
        """Of the GPU; None for a CPU."""
        is_gpu = self.device.type == "cuda"
        return str(torch.cuda.get_device_name(self.device)) if is_gpu else None

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not in this environment
    def reference_log_probs(self, batch: MicroBatch) -> Tensor:
        """[T] those of the base: the adapter switched off, or a second, frozen copy."""
        if self.lora is not None:
            with self.model.disable_adapter():
                return self._log_probs(self.model, batch, None)
        if self._reference is None:
            self._reference = _load(self._base, self.device).requires_grad_(False).eval()
        return self._log_probs(self._reference, batch, None)

    def save(self, out: Path) -> None:
        """The adapter, or all weights in bf16 with what an engine needs beside them."""
        if self.lora is None:
            kept = {name: value.to(torch.bfloat16) for name, value in self._state().items()}
            self.model.save_pretrained(out, state_dict=kept)
        else:
            self.model.save_pretrained(out)
        self.tokenizer.save_pretrained(out)

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.model.state_dict()
        return state

    def _log_probs(self, model: Any, batch: MicroBatch, entropies: list[Tensor] | None) -> Tensor:
        causal = model.get_base_model() if hasattr(model, "get_base_model") else model
        kind = self.device.type
        half = torch.autocast(kind, dtype=torch.bfloat16) if self._half else nullcontext()
        with half:
            hidden = causal.base_model(
                input_ids=batch.ids, position_ids=batch.positions, use_cache=False
            ).last_hidden_state
            return _token_log_probs(causal, hidden[batch.places], batch.targets, entropies)


def _token_log_probs(
    causal: Any, hidden: Tensor, targets: Tensor, entropies: list[Tensor] | None
) -> Tensor:
    """[T]; the sum of each chunk's entropies is appended to `entropies`."""
    head, cap = causal.get_output_embeddings(), getattr(causal.config, "final_logit_softcapping", 0)
    rows = max(1, CHUNK_ELEMENTS // head.weight.shape[0])
    chunks = -(-len(targets) // rows)

    def chunk(states: Tensor, wanted: Tensor) -> Tensor:
        logits = head(states).float()
        if cap:
            logits = torch.tanh(logits / cap) * cap
        normaliser = logits.logsumexp(1)
        # A chunk is made again for its gradient; its entropy is known then.
        if entropies is not None and len(entropies) < chunks:
            entropies.append(_entropy(logits.detach(), normaliser.detach()))
        return logits.gather(1, wanted[:, None])[:, 0] - normaliser

    if chunks <= 1:
        return chunk(hidden, targets)
    again = torch.utils.checkpoint.checkpoint
    pairs = zip(hidden.split(rows), targets.split(rows), strict=True)
    return torch.cat(
        [again(chunk, states, wanted, use_reentrant=False) for states, wanted in pairs]
    )


def _entropy(logits: Tensor, normaliser: Tensor) -> Tensor:
    """[] sum over the rows of logits [T, V] of log Z - sum_v p_v logit_v, in nats."""
    probabilities = (logits - normaliser[:, None]).exp_()
    return normaliser.sum() - torch.dot(probabilities.view(-1), logits.view(-1))


def _load(folder: Path, device: Any) -> Any:
    # float32: bf16 weights lose updates that are smaller than a 256th of them
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model.to(device).train()


def _with_adapter(model: Any, lora: LoraSettings) -> Any:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha or 2 * lora.rank,
        target_modules=list(lora.targets),
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, config)
