"""What objectives from preferences share: their strength, and gains over the reference."""

from dataclasses import dataclass

from tutti.tasks.training.objectives.tokens import Tensor, Tokens, by_group


@dataclass(frozen=True)
class Preference:
    """How strongly a preference is followed."""

    beta: float = 0.1
    wanted: float = 1.0
    """KTO's weight of wanted answers."""
    unwanted: float = 1.0
    """KTO's weight of the others."""


PREFERENCE = Preference()


def gains(logp: Tensor, tokens: Tokens) -> Tensor:
    """[S] sums of log p - log reference. Raises ValueError without a reference."""
    if tokens.reference is None:
        raise ValueError("the batch has no log probabilities of a reference model")
    return by_group(logp - tokens.reference, tokens.sequence, tokens.sequences)
