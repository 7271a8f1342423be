"""KTO: answers that are wanted or not, without pairs.

L = mean of w (1 - sigmoid(beta (d - z))) where wanted, u (1 - sigmoid(beta (z - d))) where not;
d = sum_t (log p - log reference), z = max(0, mean d of answers to other prompts), without gradient.
Source: arXiv 2402.01306, eq. 8.
"""

import torch

from tutti.tasks.training.objectives.preference import gains, reward_figures
from tutti.tasks.training.objectives.settings import PREFERENCE, Preference
from tutti.tasks.training.objectives.tokens import Loss, StepSizes, Tensor, Tokens


def kto(logp: Tensor, tokens: Tokens, sizes: StepSizes, how: Preference = PREFERENCE) -> Loss:
    """The micro-batch's share of the loss.

    `tokens.extra` holds `wanted` [S] bool and `baseline` [], z before it is bounded from below; it
    is the same for all micro-batches of a step.
    """
    wanted, baseline = tokens.extra["wanted"], tokens.extra["baseline"].detach().clamp(min=0.0)
    gain = gains(logp, tokens)
    good = how.wanted * (1 - torch.sigmoid(how.beta * (gain - baseline)))
    bad = how.unwanted * (1 - torch.sigmoid(how.beta * (baseline - gain)))
    losses = torch.where(wanted, good, bad)
    return Loss(losses.sum() / sizes.sequences, reward_figures(how.beta * gain, wanted, sizes))
