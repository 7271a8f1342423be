"""EPO's released loss: supervised, each turn weighted by its normalised return.

L = sum_i 1/K_i sum_k -(w_k / |T_k|) sum_t log p, w_k in [0, 1]: no weight is negative, nothing is a
ratio, and dialogues are summed, not averaged. Kept for comparison: `epo` is what to train with.
Source: arXiv 2502.12486, its released `reward_weighted_loss`; weights by `rewards.turns`.
"""

from tutti.tasks.training.objectives.epo import turns_of
from tutti.tasks.training.objectives.tokens import Loss, StepSizes, Tensor, Tokens, mean_by_group


def epo_published(logp: Tensor, tokens: Tokens, sizes: StepSizes) -> Loss:
    """The released loss; `Tokens.advantage` holds the published weights. Raises ValueError where
    the tokens have no turns."""
    turn, turns, owner = turns_of(tokens)
    of_turns = mean_by_group(tokens.advantage * logp, turn, turns)
    return Loss(-mean_by_group(of_turns, owner, tokens.sequences).sum(), {})
