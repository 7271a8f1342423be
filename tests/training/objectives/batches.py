"""Random batches, padded as in other programs and flat as in ours."""

from dataclasses import dataclass, replace
from typing import Any

import torch

from tutti.tasks.training.objectives.losses import StepSizes, Tokens

Tensor = Any


@dataclass(frozen=True)
class Batch:
    """Sequences as padded rows."""

    logp: Tensor
    mask: Tensor
    behaviour: Tensor
    reference: Tensor
    advantage: Tensor
    """[B]."""

    def flat(self, values: Tensor) -> Tensor:
        """Return the values of shape [B, T] or [B] as [T]."""
        wide = values if values.dim() == 2 else values[:, None].expand_as(self.mask)
        return wide[self.mask.bool()]

    @property
    def sequence(self) -> Tensor:
        return self.flat(torch.arange(len(self.mask)))

    def tokens(self, **more: Any) -> Tokens:
        return Tokens(
            sequence=self.sequence,
            sequences=len(self.mask),
            behaviour=self.flat(self.behaviour),
            advantage=self.flat(self.advantage),
            reference=self.flat(self.reference),
            **more,
        )

    @property
    def sizes(self) -> StepSizes:
        tokens = int(self.mask.sum())
        return StepSizes(tokens, len(self.mask), float(tokens), self.mask.shape[1])


def batch(seed: int, rows: int = 6, width: int = 12, drift: float = 0.4) -> Batch:
    """Return rows of 1 to `width` tokens; `drift` is the spread of the log ratios."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    lengths = torch.randint(1, width + 1, (rows, 1), generator=generator)
    lengths[0] = width
    mask = (torch.arange(width)[None] < lengths).long()
    behaviour = -normal(rows, width).abs() - 0.1
    logp = (behaviour + drift * normal(rows, width)).requires_grad_()
    reference = behaviour + 0.2 * normal(rows, width)
    return Batch(logp, mask, behaviour, reference, normal(rows))


def rows_of(whole: Batch, first: int, last: int) -> Batch:
    """Return some rows of a batch as a micro-batch that shares the graph of the log
    probabilities."""
    part = slice(first, last)
    names = ("logp", "mask", "behaviour", "reference", "advantage")
    return replace(whole, **{name: getattr(whole, name)[part] for name in names})
