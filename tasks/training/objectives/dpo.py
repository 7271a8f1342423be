"""DPO: of two answers to one prompt the better one gains over the reference model.

L = mean over pairs of -log sigmoid(beta (d_chosen - d_rejected)), d = sum_t log p - log reference.
Sequences 2i and 2i + 1 are a pair, the chosen one first. Source: arXiv 2305.18290, eq. 7.
"""

from dataclasses import replace

import torch

from tutti.tasks.training.objectives.preference import gains, reward_figures
from tutti.tasks.training.objectives.settings import PREFERENCE, Preference
from tutti.tasks.training.objectives.tokens import Loss, StepSizes, Tensor, Tokens


def dpo(logp: Tensor, tokens: Tokens, sizes: StepSizes, how: Preference = PREFERENCE) -> Loss:
    """The micro-batch's share of the loss; `sizes.sequences` counts both of each pair.

    Raises ValueError for an odd number of sequences, or without a reference.
    """
    if tokens.sequences % 2:
        raise ValueError(f"dpo: {tokens.sequences} sequences are not pairs")
    gain = gains(logp, tokens)
    margin = how.beta * (gain[0::2] - gain[1::2])
    pairs = sizes.sequences / 2
    chosen = torch.arange(tokens.sequences, device=gain.device) % 2 == 0
    figures = reward_figures(how.beta * gain, chosen, replace(sizes, wanted=sizes.sequences // 2))
    figures["preference_accuracy"] = (margin > 0).float().sum() / pairs
    return Loss(-torch.nn.functional.logsigmoid(margin).sum() / pairs, figures)
