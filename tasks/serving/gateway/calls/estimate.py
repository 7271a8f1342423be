"""Estimates the tokens of a prompt before the engine reports them.

A program's next prompt has the tokens of its last call, which are exact, and new text, estimated by
the model's bytes per token. Only a first prompt is estimated as a whole.
"""

from tutti.tasks.serving.gateway.calls.request import CallRequest
from tutti.tasks.serving.scheduling import Program

FIRST_RATIO = 4.0  # bytes a token, before any answer
MEMORY = 32
MAX_MODELS = 256
PIECE = 512  # bytes
SLACK = 2  # pieces


def chain_of(raw: bytes) -> tuple[int, ...]:
    return tuple([hash(raw[place : place + PIECE]) for place in range(0, len(raw), PIECE)])


def common_share(program: Program | None, chain: tuple[int, ...]) -> float:
    """The share of a program's last prompt that this one begins with; 1 if it only grew."""
    if program is None or not program.prompt_chain:
        return 1.0
    before = program.prompt_chain
    same = 0
    for old, new in zip(before, chain, strict=False):
        if old != new:
            break
        same += 1
    # A body ends with the fields after its messages, so its last pieces never match.
    return 1.0 if same >= len(before) - SLACK else (same + 0.5) / len(before)


class PromptSizes:
    """Bytes per token, by model."""

    def __init__(self) -> None:
        self._ratios: dict[str, float] = {}

    def estimate(self, program: Program | None, request: CallRequest) -> int:
        size = len(request.raw)
        ratio = self._ratios.get(request.model, FIRST_RATIO)
        if program is None or not program.calls_done or not program.prompt_bytes:
            return max(1, int(size / ratio))
        new = size - program.prompt_bytes
        if new < 0:  # rebuilt or cut: all of it may be new text
            return max(1, int(size / ratio))
        return program.context_tokens + int(new / ratio)

    def learn(self, request: CallRequest, size: int, prompt_tokens: int) -> None:
        """Learn that a body of `size` bytes had `prompt_tokens` tokens."""
        sample = size / prompt_tokens
        old = self._ratios.get(request.model)
        if old is None and len(self._ratios) >= MAX_MODELS:
            return
        self._ratios[request.model] = sample if old is None else old + (sample - old) / MEMORY
