"""An engine's size and speed: the constants that `calibrate` fits."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineModel:
    """An engine's size and speed."""

    name: str
    kv_tokens: int
    """KV cache; one block of it is vLLM's null block."""
    block_tokens: int = 32
    max_num_seqs: int = 64
    max_batched_tokens: int = 2048
    iteration_s: float = 0.01
    """a: an empty iteration."""
    prefill_token_s: float = 1e-4
    """b: a computed prompt token."""
    decode_s: float = 1e-4
    """c: a decoding request."""
    context_token_s: float = 0.0
    """d: a token of context attended to."""
    request_s: float = 0.0
    """e: an admitted request: reading, tokenising, answering it."""

    @property
    def blocks(self) -> int:
        """Blocks available to requests."""
        return self.kv_tokens // self.block_tokens - 1

    @property
    def longest_call(self) -> int:
        """The most tokens of prompt and answer that fit."""
        return self.blocks * self.block_tokens
