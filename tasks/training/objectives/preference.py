"""What objectives from preferences share: gains over the reference."""

from tutti.tasks.training.objectives.tokens import Tensor, Tokens, by_group


def gains(logp: Tensor, tokens: Tokens) -> Tensor:
    """[S] sums of log p - log reference. Raises ValueError without a reference."""
    if tokens.reference is None:
        raise ValueError("the batch has no log probabilities of a reference model")
    return by_group(logp - tokens.reference, tokens.sequence, tokens.sequences)
