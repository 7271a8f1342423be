"""Objectives of given answers: imitated, weighted by turns, or compared with a reference model.

Each is the micro-batch's share of its step's loss.
"""

from dataclasses import replace

import torch

from tutti.tasks.training.objectives.settings import Preference
from tutti.tasks.training.objectives.tokens import (
    Loss,
    StepSizes,
    Tensor,
    Tokens,
    by_group,
    mean_by_group,
    turn_owners,
)


def sft(logp: Tensor, tokens: Tokens, sizes: StepSizes) -> Loss:
    """SFT: weighted cross-entropy of the tokens that the model should have written.

    L = -(sum_t w_t log p_t) / (sum_t w_t), over the whole step. With weights of 1 it is the mean
    over all trained tokens, however they are cut into micro-batches. Raises ValueError where no
    weight is above 0.
    """
    if sizes.weight <= 0:
        raise ValueError(f"sft: the step's weights sum to {sizes.weight:g}, so it has no mean")
    weight = torch.ones_like(logp) if tokens.weight is None else tokens.weight
    return Loss(-(weight * logp).sum() / sizes.weight, {})


def epo_published(logp: Tensor, tokens: Tokens, sizes: StepSizes) -> Loss:
    """EPO's released loss: each turn weighted by its normalised return.

    L = sum_i 1/K_i sum_k -(w_k / |T_k|) sum_t log p, w_k in [0, 1]: no weight is negative, nothing
    is a ratio, and dialogues are summed, not averaged. Kept for comparison: `epo` is what to train
    with. Source: arXiv 2502.12486, its released `reward_weighted_loss`; `Tokens.advantage` holds
    the weights of `rewards.turns`. Raises ValueError where the tokens have no turns.
    """
    turn, turns, owner = turn_owners(tokens)
    of_turns = mean_by_group(tokens.advantage * logp, turn, turns)
    return Loss(-mean_by_group(of_turns, owner, tokens.sequences).sum(), {})


def dpo(logp: Tensor, tokens: Tokens, sizes: StepSizes, how: Preference) -> Loss:
    """DPO: of two answers to one prompt the better one gains over the reference model.

    L = mean over pairs of -log sigmoid(beta (d_chosen - d_rejected)), d = sum_t log p - log
    reference. Sequences 2i and 2i + 1 are a pair, the chosen one first; `sizes.sequences` counts
    both of each. Source: arXiv 2305.18290, eq. 7. Raises ValueError for an odd number of sequences,
    or without a reference.
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


def sdpo(logp: Tensor, tokens: Tokens, sizes: StepSizes, how: Preference) -> Loss:
    """SDPO: DPO of a segment of two dialogues that begin alike.

    L as DPO's, summed over the tokens of the segments only, which have equally many turns, so that
    no part of the loss comes from their lengths. Source: arXiv 2501.01821, eq. 8. Raises ValueError
    where segments differ in turns.
    """
    if tokens.turn is None:
        raise ValueError("sdpo: the batch has no turns")
    first = torch.ones_like(tokens.turn, dtype=torch.bool)
    first[1:] = tokens.turn[1:] != tokens.turn[:-1]
    turns = by_group(first.float(), tokens.sequence, tokens.sequences)
    if not torch.equal(turns[0::2], turns[1::2]):
        raise ValueError(f"sdpo: segments of {turns.int().tolist()} turns; a pair has equally many")
    return dpo(logp, tokens, sizes, how)


def kto(logp: Tensor, tokens: Tokens, sizes: StepSizes, how: Preference) -> Loss:
    """KTO: answers that are wanted or not, without pairs.

    L = mean of w (1 - sigmoid(beta (d - z))) where wanted, u (1 - sigmoid(beta (z - d))) where not;
    d = sum_t (log p - log reference), z = max(0, mean d of answers to other prompts), without
    gradient. Source: arXiv 2402.01306, eq. 8. `tokens.extra` holds `wanted` [S] bool and `baseline`
    [], z before it is bounded from below; it is the same for all micro-batches of a step.
    """
    wanted, baseline = tokens.extra["wanted"], tokens.extra["baseline"].detach().clamp(min=0.0)
    gain = gains(logp, tokens)
    good = how.wanted * (1 - torch.sigmoid(how.beta * (gain - baseline)))
    bad = how.unwanted * (1 - torch.sigmoid(how.beta * (baseline - gain)))
    losses = torch.where(wanted, good, bad)
    return Loss(losses.sum() / sizes.sequences, reward_figures(how.beta * gain, wanted, sizes))


def gains(logp: Tensor, tokens: Tokens) -> Tensor:
    """[S] sums of log p - log reference. Raises ValueError without a reference."""
    if tokens.reference is None:
        raise ValueError("the batch has no log probabilities of a reference model")
    return by_group(logp - tokens.reference, tokens.sequence, tokens.sequences)


def reward_figures(rewards: Tensor, wanted: Tensor, sizes: StepSizes) -> dict[str, Tensor]:
    """The micro-batch's share of the mean rewards (beta x gain) of wanted and of other answers.

    `rewards` [S], `wanted` [S] bool; `sizes.wanted` is the step's count. An absent kind has none.
    """
    others = sizes.sequences - sizes.wanted
    sides = (("chosen", wanted, sizes.wanted), ("rejected", ~wanted, others))
    known = rewards.detach()
    found = {f"{name}_reward": (known * of).sum() / n for name, of, n in sides if n}
    if len(found) == len(sides):
        found["margin"] = found["chosen_reward"] - found["rejected_reward"]
    return found
