"""How large and how fast an engine is: the constants that `calibrate` fits."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class EngineModel:
    """How large and how fast an engine is."""

    name: str
    kv_tokens: int
    """KV cache; one block of it is vLLM's null block."""
    block_tokens: int = 32
    max_num_seqs: int = 64
    max_batched_tokens: int = 2048
    iteration_s: float = 0.01
    """a: an iteration with nothing in it."""
    prefill_token_s: float = 1e-4
    """b: a prompt token that is computed."""
    decode_s: float = 1e-4
    """c: a request that decodes."""
    context_token_s: float = 0.0
    """d: a token of context that is attended to."""
    request_s: float = 0.0
    """e: a request that is admitted: reading, tokenising, answering it."""

    @property
    def blocks(self) -> int:
        """Blocks that requests can have."""
        return self.kv_tokens // self.block_tokens - 1

    @property
    def longest_call(self) -> int:
        """Most tokens of prompt and answer that fit at all."""
        return self.blocks * self.block_tokens

    def slower(self, factor: float) -> "EngineModel":
        """The same engine on a machine that takes `factor` times as long."""
        return replace(
            self,
            iteration_s=self.iteration_s * factor,
            prefill_token_s=self.prefill_token_s * factor,
            decode_s=self.decode_s * factor,
            context_token_s=self.context_token_s * factor,
            request_s=self.request_s * factor,
        )
