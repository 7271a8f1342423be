"""SFT: weighted cross-entropy of the tokens that the model should have written.

L = -(sum_t w_t log p_t) / (sum_t w_t), over the whole step. With weights of 1 it is the mean over
all trained tokens, however they are cut into micro-batches.
"""

import torch

from tutti.tasks.training.objectives.tokens import Loss, StepSizes, Tensor, Tokens


def sft(logp: Tensor, tokens: Tokens, sizes: StepSizes) -> Loss:
    """The micro-batch's share of the loss. Raises ValueError where no weight is above 0."""
    if sizes.weight <= 0:
        raise ValueError(f"sft: the step's weights sum to {sizes.weight:g}, so it has no mean")
    weight = torch.ones_like(logp) if tokens.weight is None else tokens.weight
    return Loss(-(weight * logp).sum() / sizes.weight, {})
