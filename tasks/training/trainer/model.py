"""The model being trained: its loading, with an adapter or whole, and its log probabilities."""

import resource
import sys
from pathlib import Path
from typing import Any

import torch
import torch.utils.checkpoint
from transformers import AutoModelForCausalLM, AutoTokenizer

from tutti.tasks.training.jobs.settings import CHUNK_ELEMENTS, LoraSettings, TrainerSettings
from tutti.tasks.training.trainer.batching import MicroBatch
from tutti.tasks.training.trainer.world import ALONE, World, gather, shard

Tensor = Any


class Policy:
    """A causal language model being trained, sharded if the world has several processes."""

    def __init__(self, settings: TrainerSettings, world: World = ALONE) -> None:
        """Load the model and its tokenizer from the base's folder."""
        self.world, self.device = world, world.device
        self.tokenizer = AutoTokenizer.from_pretrained(settings.base)
        model = _load(settings.base, world)
        self.lora = settings.lora
        if settings.gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
            if settings.lora is not None:  # else no gradient reaches the first block
                model.enable_input_require_grads()
        if settings.lora is not None:
            from peft import get_peft_model

            model = get_peft_model(model, lora_config(settings.lora))
        self._scorer = _Scorer(model)
        shard(self._scorer, _causal(model), world)
        self._half = settings.dtype != "float32"
        self._reference: Any = None
        self._base = settings.base

    @property
    def model(self) -> Any:
        """The transformers model, or the PEFT model that wraps it."""
        return self._scorer.model

    @model.setter
    def model(self, model: Any) -> None:
        self._scorer.model = model

    @property
    def parameters(self) -> list[Any]:
        """The trained weights."""
        return [each for each in self.model.parameters() if each.requires_grad]

    @property
    def size(self) -> int:
        """Number of all weights, trained or not."""
        return sum(each.numel() for each in self.model.parameters())

    def log_probs(self, batch: MicroBatch) -> Tensor:
        """[T] log probabilities of the trained tokens, in float32, with their autograd graph."""
        return self._score(self._scorer, batch, False)[0]

    def measured(self, batch: MicroBatch) -> tuple[Tensor, Tensor]:
        """Return `log_probs`, and [] the sum of the entropies at the trained tokens, in nats."""
        return self._score(self._scorer, batch, True)

    @property
    def peak_mb(self) -> float:
        """Peak memory so far, in 10^6 bytes: allocated on the GPU, else resident in the process."""
        if self.device.type == "cuda":
            return float(torch.cuda.max_memory_allocated(self.device) / 1e6)
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most * (1 if sys.platform == "darwin" else 1024) / 1e6

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not in this environment
    def reference_log_probs(self, batch: MicroBatch) -> Tensor:
        """[T] log probabilities of the base: the adapter off, or a second, frozen copy."""
        if self.lora is not None:
            with self.model.disable_adapter():
                return self.log_probs(batch)
        if self._reference is None:
            base = _load(self._base, self.world).requires_grad_(False).eval()
            self._reference = _Scorer(base)
            shard(self._reference, base, self.world)
        return self._score(self._reference, batch, False)[0]

    def save(self, out: Path) -> None:
        """Save the adapter, or all weights in bf16 with the other files that an engine needs. All
        processes must call it; the first one writes."""
        if self.lora is None:
            kept = gather(self.model.state_dict().items(), self.world, torch.bfloat16)
        else:
            named = self.model.named_parameters()
            kept = gather(((n, p) for n, p in named if p.requires_grad), self.world)
        if self.world.is_first:
            self.model.save_pretrained(out, state_dict=kept)
            self.tokenizer.save_pretrained(out)

    def _score(self, scorer: Any, batch: MicroBatch, entropy: bool) -> tuple[Tensor, Tensor]:
        with torch.autocast(
            self.device.type,
            dtype=torch.bfloat16,
            enabled=self._half,
            # The cache would hold a whole copy of weights that lie in parts.
            cache_enabled=self.world.size == 1,
        ):
            scores = scorer(batch.ids, batch.positions, batch.places, batch.targets, entropy)
        logp, entropies = scores
        return logp, entropies


class _Scorer(torch.nn.Module):  # type: ignore[misc]  # torch is not in this environment
    """A model with its log probabilities, in one forward pass: FSDP gathers a module's weights when
    the module is called, and the head is called separately from the model."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, ids: Tensor, positions: Tensor, places: Any, targets: Tensor, entropy: bool
    ) -> tuple[Tensor, Tensor]:
        """Return ([T] log probabilities, [] the sum of the entropies if `entropy`)."""
        causal = _causal(self.model)
        entropies: list[Tensor] | None = [] if entropy else None
        hidden = causal.base_model(
            input_ids=ids, position_ids=positions, use_cache=False
        ).last_hidden_state
        logp = _token_log_probs(causal, hidden[places], targets, entropies)
        return logp, torch.stack(entropies).sum() if entropies else None


def _causal(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _token_log_probs(
    causal: Any, hidden: Tensor, targets: Tensor, entropies: list[Tensor] | None
) -> Tensor:
    """Return [T] log probabilities; append the sum of each chunk's entropies to `entropies`."""
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
    """Return the [] sum over the rows of logits [T, V] of log Z - sum_v p_v logit_v, in nats."""
    probabilities = (logits - normaliser[:, None]).exp_()
    return normaliser.sum() - torch.dot(probabilities.view(-1), logits.view(-1))


def _load(folder: Path, world: World) -> Any:
    # float32: bf16 weights lose updates that are smaller than a 256th of them
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    # One that will be in parts need not fit on a card: `shard` moves it layer by layer.
    return (model.to(world.device) if world.size == 1 else model).train()


def lora_config(lora: LoraSettings) -> Any:
    """PEFT's settings of an adapter."""
    from peft import LoraConfig

    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.scale,
        target_modules=list(lora.targets),
        task_type="CAUSAL_LM",
    )
