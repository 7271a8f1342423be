"""The longest reply of a suite that does not state one: by the model's context.

Until 2026-11 it was 96 tokens for every benchmark, which cut the replies of most models off.
"""

from tutti.tasks.sweeps.spec.suite import STDLIB, Suite

STDLIB_TOKENS = 96
"""Of tutti's own tasks, whose answers are a word: the former default, so their ids stay."""
MOST_TOKENS = 16_384
"""More is refused by some providers, and a suite whose model needs more states it."""


def default_tokens(context_tokens: int) -> int:
    """Half of the context, so that prompts have the other half; at most `MOST_TOKENS`."""
    return max(1, min(MOST_TOKENS, context_tokens // 2))


def reply_tokens(suite: Suite, context_tokens: int | None) -> int:
    """Most tokens of one reply; `context_tokens` are the model's, None where it has no entry."""
    if suite.sampling.max_tokens is not None:
        return suite.sampling.max_tokens
    if suite.benchmark == STDLIB or context_tokens is None:
        return STDLIB_TOKENS
    return default_tokens(context_tokens)


def with_reply_tokens(suite: Suite, context_tokens: int | None) -> Suite:
    """The suite, stating the length."""
    if suite.sampling.max_tokens is not None:
        return suite
    stated = {"max_tokens": reply_tokens(suite, context_tokens)}
    sampling = suite.sampling.model_copy(update=stated)
    return suite.model_copy(update={"sampling": sampling})
