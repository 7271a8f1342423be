"""Objectives as functions of the log probabilities of a micro-batch's trained tokens.

A step's loss is the sum over its micro-batches, each divided by the whole step's sizes, so that it
does not depend on how the step is cut. Objectives of a policy's own attempts have importance ratios
r, clipped or truncated; advantages are an input (`rewards`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from tutti.tasks.training.objectives import Clipping, Preference, settings_with

Tensor = Any
"""A torch.Tensor; torch is not in the environment in which types are checked."""


@dataclass(frozen=True)
class Tokens:
    """T trained tokens of S sequences, concatenated."""

    sequence: Tensor  # [T] int64: the token's sequence, 0 to S - 1, never falling
    sequences: int  # S
    behaviour: Tensor
    """[T] log probability, in nats, by the weights that sampled the token, as recorded."""
    advantage: Tensor  # [T]
    old: Tensor | None = None
    """[T] log probability by the trainer's weights before the step; None: as `behaviour`."""
    reference: Tensor | None = None  # [T] log probability by the frozen reference model
    weight: Tensor | None = None  # [T] for supervised objectives; None: 1
    turn: Tensor | None = None
    """[T] int64: the token's turn, 0 to K - 1 over the micro-batch, never falling."""
    turns: int = 0  # K
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    """Inputs of single objectives, by name; each says which."""


@dataclass(frozen=True)
class StepSizes:
    """Sizes of a whole optimizer step, over all its micro-batches and processes."""

    tokens: int  # Trained tokens
    sequences: int
    weight: float = 0.0  # Sum of the weights; supervised objectives
    max_tokens: int = 0  # The longest answer that the rollouts allow; Dr. GRPO
    wanted: int = 0  # Sequences that are wanted; KTO


@dataclass(frozen=True)
class Loss:
    """The micro-batch's share of the step's loss and figures."""

    value: Tensor
    figures: dict[str, Tensor]
    """Shares too: summed over the micro-batches they are the step's figures."""


Objective = Callable[[Tensor, Tokens, StepSizes], Loss]
"""(log probabilities [T] with their graph, tokens, sizes) to the loss."""


def objective(name: str, given: Mapping[str, Any]) -> Objective:
    """Return an objective with its published settings, overridden by `given`. Raises ValueError for
    an unknown objective or setting."""
    settings, function = settings_with(name, given), globals()[name]
    found: Objective = function if settings is None else partial(function, how=settings)
    return found


def by_group(values: Tensor, group: Tensor, groups: int) -> Tensor:
    """Return [groups] sums of values [T] over `group` [T]."""
    return torch.zeros(groups, dtype=values.dtype, device=values.device).index_add(0, group, values)


def mean_by_group(values: Tensor, group: Tensor, groups: int) -> Tensor:
    """Return [groups] means of values [T] over `group` [T]; 0 for an empty group."""
    counts = by_group(torch.ones_like(values), group, groups)
    return by_group(values, group, groups) / counts.clamp(min=1.0)


def turn_owners(tokens: Tokens) -> tuple[Tensor, int, Tensor]:
    """Return ([T] turn, K, [K] sequence of each turn). Raises ValueError if there are no turns."""
    if tokens.turn is None or tokens.turns <= 0:
        raise ValueError("epo: the batch has no turns")
    owner = torch.zeros(tokens.turns, dtype=torch.int64, device=tokens.turn.device)
    return tokens.turn, tokens.turns, owner.index_copy(0, tokens.turn, tokens.sequence)


def sft(logp: Tensor, tokens: Tokens, sizes: StepSizes) -> Loss:
    """SFT: weighted cross-entropy of the target tokens.

    L = -(sum_t w_t log p_t) / (sum_t w_t), over the whole step. With weights of 1 it is the mean
    over all trained tokens, however they are cut into micro-batches. Raises ValueError if no weight
    is above 0.
    """
    if sizes.weight <= 0:
        raise ValueError(f"sft: the step's weights sum to {sizes.weight:g}, so it has no mean")
    weight = torch.ones_like(logp) if tokens.weight is None else tokens.weight
    return Loss(-(weight * logp).sum() / sizes.weight, {})


def epo_published(logp: Tensor, tokens: Tokens, sizes: StepSizes) -> Loss:
    """EPO's released loss: each turn weighted by its normalised return.

    L = sum_i 1/K_i sum_k -(w_k / |T_k|) sum_t log p, w_k in [0, 1]: no weight is negative, there
    are no ratios, and dialogues are summed, not averaged. It is for comparison only; train with
    `epo`. Source: arXiv 2502.12486, its released `reward_weighted_loss`; `Tokens.advantage` holds
    the weights of `rewards.turns`. Raises ValueError if the tokens have no turns.
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
    """SDPO: DPO of a segment of two dialogues with the same beginning.

    L is DPO's, summed over the tokens of the segments only, which have equally many turns, so that
    no part of the loss comes from their lengths. Source: arXiv 2501.01821, eq. 8. Raises ValueError
    if segments differ in turns.
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
    """KTO: wanted and unwanted answers, without pairs.

    L = mean of w (1 - sigmoid(beta (d - z))) for wanted answers, u (1 - sigmoid(beta (z - d))) for
    others; d = sum_t (log p - log reference), z = max(0, mean d of answers to other prompts),
    without gradient. Source: arXiv 2402.01306, eq. 8. `tokens.extra` holds `wanted` [S] bool and
    `baseline` [], which is z before the max; it is the same for all micro-batches of a step.
    """
    wanted, baseline = tokens.extra["wanted"], tokens.extra["baseline"].detach().clamp(min=0.0)
    gain = gains(logp, tokens)
    good = how.wanted * (1 - torch.sigmoid(how.beta * (gain - baseline)))
    bad = how.unwanted * (1 - torch.sigmoid(how.beta * (baseline - gain)))
    losses = torch.where(wanted, good, bad)
    return Loss(losses.sum() / sizes.sequences, reward_figures(how.beta * gain, wanted, sizes))


def gains(logp: Tensor, tokens: Tokens) -> Tensor:
    """Return [S] sums of log p - log reference. Raises ValueError without a reference."""
    if tokens.reference is None:
        raise ValueError("the batch has no log probabilities of a reference model")
    return by_group(logp - tokens.reference, tokens.sequence, tokens.sequences)


def reward_figures(rewards: Tensor, wanted: Tensor, sizes: StepSizes) -> dict[str, Tensor]:
    """The micro-batch's share of the mean rewards (beta x gain) of wanted and of other answers.

    `rewards` [S], `wanted` [S] bool; `sizes.wanted` is the step's count; none for an absent kind.
    """
    others = sizes.sequences - sizes.wanted
    sides = (("chosen", wanted, sizes.wanted), ("rejected", ~wanted, others))
    known = rewards.detach()
    found = {f"{name}_reward": (known * of).sum() / n for name, of, n in sides if n}
    if len(found) == len(sides):
        found["margin"] = found["chosen_reward"] - found["rejected_reward"]
    return found


Figures = dict[str, Tensor]  # [T] each


def grpo(logp: Tensor, tokens: Tokens, sizes: StepSizes, how: Clipping) -> Loss:
    """GRPO: each sequence's mean over its tokens, mean over the sequences.

    L = 1/S sum_i 1/|o_i| sum_t ( -min(r A_i, clip(r, 1-low, 1+high) A_i) + kl k3 ).
    Source: DeepSeekMath, arXiv 2402.03300, eq. 3.
    """
    losses, figures = _clipped_losses(logp, tokens, how, log_ratio(logp, tokens))
    return _share(_mean_of_sequences(losses, tokens, sizes), figures, logp, tokens, sizes)


def dapo(logp: Tensor, tokens: Tokens, sizes: StepSizes, how: Clipping) -> Loss:
    """DAPO: GRPO with a higher upper clip and equal weight of all tokens of the step.

    L = 1/(sum_i |o_i|) sum_i sum_t -min(r A_i, clip(r, 1-low, 1+high) A_i), low .2, high .28.
    Source: arXiv 2503.14476, eq. 8. Its dynamic sampling and overlong shaping are in `rewards`.
    """
    losses, figures = _clipped_losses(logp, tokens, how, log_ratio(logp, tokens))
    return _share(losses.sum() / sizes.tokens, figures, logp, tokens, sizes)


def dr_grpo(logp: Tensor, tokens: Tokens, sizes: StepSizes, how: Clipping) -> Loss:
    """Dr. GRPO: GRPO divided by a constant instead of each sequence's length.

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
    """GSPO: one ratio per sequence, the geometric mean of its tokens' ratios.

    L = 1/S sum_i -min(s_i A_i, clip(s_i, 1-low, 1+high) A_i), s_i = exp(mean_t log r_t). Source:
    arXiv 2507.18071, eq. 5 and 7; its clips are 3e-4 and 4e-4.
    """
    means = mean_by_group(log_ratio(logp, tokens), tokens.sequence, tokens.sequences)
    losses, figures = _clipped_losses(logp, tokens, how, means[tokens.sequence])
    return _share(_mean_of_sequences(losses, tokens, sizes), figures, logp, tokens, sizes)


def cispo(logp: Tensor, tokens: Tokens, sizes: StepSizes, how: Clipping) -> Loss:
    """CISPO: the clipped ratio weights the log probability and has no gradient.

    L = 1/(sum_i |o_i|) sum_i sum_t -stop(min(r, 1+high)) A_i log p, so that every token keeps its
    gradient. Source: MiniMax-M1, arXiv 2506.13585, eq. 4 and 5 (no lower clip).
    """
    ratio = torch.exp(log_ratio(logp, tokens))
    weight = ratio.clamp(max=1 + how.high).detach() * correction(tokens, how.truncate)
    figures = {"clip_share": (ratio > 1 + how.high).float()}
    losses = _with_kl(-weight * tokens.advantage * logp, figures, logp, tokens, how)
    return _share(losses.sum() / sizes.tokens, figures, logp, tokens, sizes)


def reinforce(logp: Tensor, tokens: Tokens, sizes: StepSizes, how: Clipping) -> Loss:
    """REINFORCE with a truncated importance weight, for leave-one-out and REINFORCE++ advantages.

    L = 1/(sum_i |o_i|) sum_i sum_t -stop(min(r, truncate)) A_t log p. If the sampling weights equal
    the trained ones, r = 1 and this is the policy gradient. Reads only `truncate` and `kl` of
    `how`. Source: RLOO arXiv 2402.14740; REINFORCE++ arXiv 2501.03262.
    """
    ratio = torch.exp(log_ratio(logp, tokens))
    losses = -ratio.clamp(max=how.truncate).detach() * tokens.advantage * logp
    figures = {"clip_share": (ratio > how.truncate).float()}
    losses = _with_kl(losses, figures, logp, tokens, how)
    return _share(losses.sum() / sizes.tokens, figures, logp, tokens, sizes)


def epo(logp: Tensor, tokens: Tokens, sizes: StepSizes, how: Clipping) -> Loss:
    """EPO on turns: each turn of a dialogue has a weight, and counts the same at any length.

    L = 1/S sum_i 1/K_i sum_k -min(s_k A_k, clip(s_k) A_k), s_k = exp(mean_t of the turn's log
    ratios). A_k is the turn's discounted return less a baseline (`rewards.turns`), so that failures
    are penalised; the released loss (`epo_published`) has neither ratio nor baseline. Source: arXiv
    2502.12486, with GSPO's ratio per turn. Raises ValueError if the tokens have no turns.
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
    """Return [T] log ratios of the current probability to that before the step."""
    return logp - (tokens.behaviour if tokens.old is None else tokens.old)


def correction(tokens: Tokens, bound: float) -> Tensor:
    """[T] weights from the engine's probabilities to the trainer's of the same or stale weights,
    which differ by rounding and kernels: min(ratio, bound), without gradient; 1 without `old`.

    Source: Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL
    training".
    """
    if tokens.old is None:
        return torch.ones_like(tokens.behaviour)
    return torch.exp(tokens.old - tokens.behaviour).clamp(max=bound)


def clipped(ratio: Tensor, advantage: Tensor, how: Clipping) -> tuple[Tensor, Tensor]:
    """([T] -min(r A, clip(r) A), [T] whether the clip was active). Source: PPO, arXiv
    1707.06347."""
    bounded = ratio if how.dual is None else torch.clamp(ratio, max=how.dual)
    narrow = torch.clamp(ratio, 1 - how.low, 1 + how.high)
    free, held = bounded * advantage, narrow * advantage
    return -torch.min(free, held), (held < free) | (bounded < ratio) & (advantage < 0)


def kl_to_reference(logp: Tensor, tokens: Tokens) -> Tensor:
    """Return the [T] k3 estimate exp(d) - d - 1 of KL(now || reference), d = reference - now; never
    negative. Source: Schulman 2020, "Approximating KL divergence". Raises ValueError without a
    reference."""
    if tokens.reference is None:
        raise ValueError("kl: above 0, but the batch has no log probabilities of a reference model")
    difference = tokens.reference - logp
    return torch.exp(difference) - difference - 1


def _clipped_losses(
    logp: Tensor, tokens: Tokens, how: Clipping, log_ratios: Tensor
) -> tuple[Tensor, Figures]:
    """Return ([T] losses, figures) of clipped ratios exp(log_ratios [T])."""
    losses, held = clipped(torch.exp(log_ratios), tokens.advantage, how)
    figures = {"clip_share": held.float()}
    losses = losses * correction(tokens, how.truncate)
    return _with_kl(losses, figures, logp, tokens, how), figures


def _with_kl(
    losses: Tensor, figures: Figures, logp: Tensor, tokens: Tokens, how: Clipping
) -> Tensor:
    """[T] losses plus the KL to the reference, if it has a coefficient; add it to `figures`."""
    if how.kl <= 0:
        return losses
    figures["kl"] = kl_to_reference(logp, tokens)
    return losses + how.kl * figures["kl"]


def _mean_of_sequences(losses: Tensor, tokens: Tokens, sizes: StepSizes) -> Tensor:
    of_sequences = mean_by_group(losses, tokens.sequence, tokens.sequences)
    return of_sequences.sum() / sizes.sequences


def _share(value: Tensor, figures: Figures, logp: Tensor, tokens: Tokens, sizes: StepSizes) -> Loss:
    """Return the loss, with the figures as means over the step's tokens."""
    drift = log_ratio(logp, tokens)
    every = figures | {"policy_kl": torch.exp(drift) - drift - 1}
    return Loss(value, {k: v.detach().sum() / sizes.tokens for k, v in every.items()})
