"""What objectives from preferences share: gains over the reference, and what is shown of them."""

from tutti.tasks.training.objectives.tokens import StepSizes, Tensor, Tokens, by_group


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
