"""What every objective reads: the trained tokens of a micro-batch, flat, and the sizes of its step.

Only tokens that the model wrote are here; prompts and padding are not. All tensors lie on one
device. A step's loss is the sum over its micro-batches, each divided by the whole step's sizes: so
how a step is cut into micro-batches changes nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

Tensor = Any
"""A torch.Tensor; torch is not in the environment in which types are checked."""


@dataclass(frozen=True)
class Tokens:
    """T trained tokens of S sequences, the sequences one after the other."""

    sequence: Tensor
    """[T] int64: the token's sequence, 0 to S - 1, never falling."""
    sequences: int
    """S."""
    behaviour: Tensor
    """[T] log probability, in nats, by the weights that sampled the token, as recorded."""
    advantage: Tensor
    """[T]."""
    old: Tensor | None = None
    """[T] log probability by the trainer's weights before the step; None: as `behaviour`."""
    reference: Tensor | None = None
    """[T] log probability by the frozen reference model."""
    weight: Tensor | None = None
    """[T] for supervised objectives; None: 1."""
    turn: Tensor | None = None
    """[T] int64: the token's turn, 0 to K - 1 over the micro-batch, never falling."""
    turns: int = 0
    """K."""
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    """What single objectives need besides, by name; each says what."""


@dataclass(frozen=True)
class StepSizes:
    """Sizes of a whole optimizer step, over all its micro-batches and processes."""

    tokens: int
    """Trained tokens."""
    sequences: int
    weight: float = 0.0
    """Sum of the weights; supervised objectives."""
    max_tokens: int = 0
    """The longest answer that the rollouts allow; Dr. GRPO."""
    wanted: int = 0
    """Sequences that are wanted; KTO."""


@dataclass(frozen=True)
class Loss:
    """The micro-batch's share of the step's loss, and of its figures."""

    value: Tensor
    figures: dict[str, Tensor]
    """Shares too: summed over the micro-batches they are the step's figures."""


Objective = Callable[[Tensor, Tokens, StepSizes], Loss]
"""(log probabilities [T] with their graph, tokens, sizes) to the loss."""


def by_group(values: Tensor, group: Tensor, groups: int) -> Tensor:
    """[groups] sums of values [T] over `group` [T]."""
    return torch.zeros(groups, dtype=values.dtype, device=values.device).index_add(0, group, values)


def mean_by_group(values: Tensor, group: Tensor, groups: int) -> Tensor:
    """[groups] means of values [T] over `group` [T]; 0 where a group is empty."""
    counts = by_group(torch.ones_like(values), group, groups)
    return by_group(values, group, groups) / counts.clamp(min=1.0)


def turn_owners(tokens: Tokens) -> tuple[Tensor, int, Tensor]:
    """([T] turn, K, [K] sequence of each turn). Raises ValueError where there are no turns."""
    if tokens.turn is None or tokens.turns <= 0:
        raise ValueError("epo: the batch has no turns")
    owner = torch.zeros(tokens.turns, dtype=torch.int64, device=tokens.turn.device)
    return tokens.turn, tokens.turns, owner.index_copy(0, tokens.turn, tokens.sequence)
