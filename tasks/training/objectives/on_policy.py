"""Objectives of a policy's own attempts: importance ratios r, clipped or truncated.

Each is the micro-batch's share of its step's loss; advantages are given (`rewards`). Truncation is
of the ratio between the trainer's and the engine's probabilities of the same weights (they differ
by rounding and kernels) and of stale weights: min(ratio, bound), without gradient. Source: Yao et
al. 2025, "Your efficient RL framework secretly brings you off-policy RL training".
"""

import torch

from tutti.tasks.training.objectives.settings import Clipping
from tutti.tasks.training.objectives.tokens import (
    Loss,
    StepSizes,
    Tensor,
    Tokens,
    mean_by_group,
    turn_owners,
)

Figures = dict[str, Tensor]
"""[T] each."""


def grpo(logp: Tensor, tokens: Tokens, sizes: StepSizes, how: Clipping) -> Loss:
    """GRPO: each sequence's mean over its tokens, mean over the sequences.

    L = 1/S sum_i 1/|o_i| sum_t ( -min(r A_i, clip(r, 1-low, 1+high) A_i) + kl k3 ).
    Source: DeepSeekMath, arXiv 2402.03300, eq. 3.
    """
    losses, figures = _clipped_losses(logp, tokens, how, log_ratio(logp, tokens))
    return _share(_mean_of_sequences(losses, tokens, sizes), figures, logp, tokens, sizes)


def dapo(logp: Tensor, tokens: Tokens, sizes: StepSizes, how: Clipping) -> Loss:
    """DAPO: as GRPO with a higher upper clip, and each token of the step counts the same.

    L = 1/(sum_i |o_i|) sum_i sum_t -min(r A_i, clip(r, 1-low, 1+high) A_i), low .2, high .28.
    Source: arXiv 2503.14476, eq. 8. Its dynamic sampling and overlong shaping are `rewards`.
    """
    losses, figures = _clipped_losses(logp, tokens, how, log_ratio(logp, tokens))
    return _share(losses.sum() / sizes.tokens, figures, logp, tokens, sizes)


def dr_grpo(logp: Tensor, tokens: Tokens, sizes: StepSizes, how: Clipping) -> Loss:
    """Dr. GRPO: as GRPO, divided by a constant instead of each sequence's length.

    L = 1/(S max_tokens) sum_i sum_t -min(r A_i, clip(r) A_i); advantages are r - mean. Source:
    arXiv 2503.20783, with the constant of its released code. Raises ValueError without
    `sizes.max_tokens`.
    """
    if sizes.max_tokens <= 0:
        raise ValueError("dr_grpo: needs max_tokens, the longest answer that the rollouts allow")
    losses, figures = _clipped_losses(logp, tokens, how, log_ratio(logp, tokens))
    value = losses.sum() / (sizes.sequences * sizes.max_tokens)
    return _share(value, figures, logp, tokens, sizes)


def gspo(logp: Tensor, tokens: Tokens, sizes: StepSizes, how: Clipping) -> Loss:
    """GSPO: one ratio a sequence, the geometric mean of its tokens' ratios.

    L = 1/S sum_i -min(s_i A_i, clip(s_i, 1-low, 1+high) A_i), s_i = exp(mean_t log r_t).
    Source: arXiv 2507.18071, eq. 5 and 7; its clips are 3e-4 and 4e-4.
    """
    means = mean_by_group(log_ratio(logp, tokens), tokens.sequence, tokens.sequences)
    losses, figures = _clipped_losses(logp, tokens, how, means[tokens.sequence])
    return _share(_mean_of_sequences(losses, tokens, sizes), figures, logp, tokens, sizes)


def cispo(logp: Tensor, tokens: Tokens, sizes: StepSizes, how: Clipping) -> Loss:
    """CISPO: the ratio is clipped and weighs the log probability without a gradient of its own.

    L = 1/(sum_i |o_i|) sum_i sum_t -stop(min(r, 1+high)) A_i log p, so that no token loses its
    gradient. Source: MiniMax-M1, arXiv 2506.13585, eq. 4 and 5 (no lower clip).
    """
    ratio = torch.exp(log_ratio(logp, tokens))
    weight = ratio.clamp(max=1 + how.high).detach() * correction(tokens, how.truncate)
    figures = {"clip_share": (ratio > 1 + how.high).float()}
    losses = _with_kl(-weight * tokens.advantage * logp, figures, logp, tokens, how)
    return _share(losses.sum() / sizes.tokens, figures, logp, tokens, sizes)


def reinforce(logp: Tensor, tokens: Tokens, sizes: StepSizes, how: Clipping) -> Loss:
    """REINFORCE with a truncated importance weight: for leave-one-out and REINFORCE++ advantages.

    L = 1/(sum_i |o_i|) sum_i sum_t -stop(min(r, truncate)) A_t log p. Where the weights that
    sampled are those that are trained, r = 1 and this is the policy gradient itself. Of `how` it
    reads `truncate` and `kl`. Source: RLOO arXiv 2402.14740; REINFORCE++ arXiv 2501.03262.
    """
    ratio = torch.exp(log_ratio(logp, tokens))
    losses = -ratio.clamp(max=how.truncate).detach() * tokens.advantage * logp
    figures = {"clip_share": (ratio > how.truncate).float()}
    losses = _with_kl(losses, figures, logp, tokens, how)
    return _share(losses.sum() / sizes.tokens, figures, logp, tokens, sizes)


def epo(logp: Tensor, tokens: Tokens, sizes: StepSizes, how: Clipping) -> Loss:
    """EPO on turns: each turn of a dialogue has a weight, and counts the same whatever its length.

    L = 1/S sum_i 1/K_i sum_k -min(s_k A_k, clip(s_k) A_k), s_k = exp(mean_t of the turn's log
    ratios). A_k is the turn's discounted return less a baseline (`rewards.turns`), so that failures
    push down; the released loss (`epo_published`) has neither. Source: arXiv 2502.12486, with
    GSPO's ratio a turn. Raises ValueError where the tokens have no turns.
    """
    turn, turns, owner = turn_owners(tokens)
    drift = log_ratio(logp, tokens)
    ratio = torch.exp(mean_by_group(drift, turn, turns))
    advantage = mean_by_group(tokens.advantage, turn, turns)
    weight = mean_by_group(correction(tokens, how.truncate), turn, turns)
    losses, held = clipped(ratio, advantage, how)
    value = mean_by_group(losses * weight, owner, tokens.sequences).sum() / sizes.sequences
    share = mean_by_group(held.float(), owner, tokens.sequences)
    figures = {
        "clip_share": share.sum() / sizes.sequences,
        "policy_kl": (torch.exp(drift) - drift - 1).detach().sum() / sizes.tokens,
    }
    return Loss(value, figures)


def log_ratio(logp: Tensor, tokens: Tokens) -> Tensor:
    """[T] log of the probability now over that of the weights before the step."""
    return logp - (tokens.behaviour if tokens.old is None else tokens.old)


def correction(tokens: Tokens, bound: float) -> Tensor:
    """[T] truncated weight from the engine's probabilities to the trainer's; 1 without `old`."""
    if tokens.old is None:
        return torch.ones_like(tokens.behaviour)
    return torch.exp(tokens.old - tokens.behaviour).clamp(max=bound)


def clipped(ratio: Tensor, advantage: Tensor, how: Clipping) -> tuple[Tensor, Tensor]:
    """([T] -min(r A, clip(r) A), [T] whether the clip decided). Source: PPO, arXiv 1707.06347."""
    bounded = ratio if how.dual is None else torch.clamp(ratio, max=how.dual)
    narrow = torch.clamp(ratio, 1 - how.low, 1 + how.high)
    free, held = bounded * advantage, narrow * advantage
    return -torch.min(free, held), (held < free) | (bounded < ratio) & (advantage < 0)


def kl_to_reference(logp: Tensor, tokens: Tokens) -> Tensor:
    """[T] k3 estimate exp(d) - d - 1 of KL(now || reference), d = reference - now; never negative.

    Source: Schulman 2020, "Approximating KL divergence". Raises ValueError without a reference.
    """
    if tokens.reference is None:
        raise ValueError("kl: above 0, but the batch has no log probabilities of a reference model")
    difference = tokens.reference - logp
    return torch.exp(difference) - difference - 1


def _clipped_losses(
    logp: Tensor, tokens: Tokens, how: Clipping, log_ratios: Tensor
) -> tuple[Tensor, Figures]:
    """([T] losses, figures) of clipped ratios exp(log_ratios [T])."""
    losses, held = clipped(torch.exp(log_ratios), tokens.advantage, how)
    figures = {"clip_share": held.float()}
    losses = losses * correction(tokens, how.truncate)
    return _with_kl(losses, figures, logp, tokens, how), figures


def _with_kl(
    losses: Tensor, figures: Figures, logp: Tensor, tokens: Tokens, how: Clipping
) -> Tensor:
    """[T] losses with the KL to the reference, which `figures` gets, where it costs anything."""
    if how.kl <= 0:
        return losses
    figures["kl"] = kl_to_reference(logp, tokens)
    return losses + how.kl * figures["kl"]


def _mean_of_sequences(losses: Tensor, tokens: Tokens, sizes: StepSizes) -> Tensor:
    of_sequences = mean_by_group(losses, tokens.sequence, tokens.sequences)
    return of_sequences.sum() / sizes.sequences


def _share(value: Tensor, figures: Figures, logp: Tensor, tokens: Tokens, sizes: StepSizes) -> Loss:
    """The loss with the figures as means over the step's tokens."""
    drift = log_ratio(logp, tokens)
    every = figures | {"policy_kl": torch.exp(drift) - drift - 1}
    return Loss(value, {k: v.detach().sum() / sizes.tokens for k, v in every.items()})
