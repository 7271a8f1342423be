"""SDPO: DPO of a segment of two dialogues that begin alike.

L as DPO's, summed over the tokens of the segments only, which have equally many turns, so that no
part of the loss comes from their lengths. Source: arXiv 2501.01821, eq. 8.
"""

import torch

from tutti.tasks.training.objectives.dpo import dpo
from tutti.tasks.training.objectives.settings import PREFERENCE, Preference
from tutti.tasks.training.objectives.tokens import Loss, StepSizes, Tensor, Tokens, by_group


def sdpo(logp: Tensor, tokens: Tokens, sizes: StepSizes, how: Preference = PREFERENCE) -> Loss:
    """The micro-batch's share of the loss. Raises ValueError where segments differ in turns."""
    if tokens.turn is None:
        raise ValueError("sdpo: the batch has no turns")
    first = torch.ones_like(tokens.turn, dtype=torch.bool)
    first[1:] = tokens.turn[1:] != tokens.turn[:-1]
    turns = by_group(first.float(), tokens.sequence, tokens.sequences)
    if not torch.equal(turns[0::2], turns[1::2]):
        raise ValueError(f"sdpo: segments of {turns.int().tolist()} turns; a pair has equally many")
    return dpo(logp, tokens, sizes, how)
