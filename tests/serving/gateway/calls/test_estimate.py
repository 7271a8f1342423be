"""Tests of the estimate of a prompt's tokens before the engine reports them."""

from tutti.tasks.serving.gateway.calls.estimate import (
    FIRST_RATIO,
    PIECE,
    SLACK,
    PromptSizes,
    chain_of,
    common_share,
)
from tutti.tasks.serving.gateway.calls.request import CallRequest
from tutti.tasks.serving.scheduling import Program


def asking(size: int) -> CallRequest:
    return CallRequest(
        path=b"/v1/chat/completions",
        kind="chat/completions",
        headers=[],
        body={},
        raw=b"x" * size,
        program="p",
        is_anonymous=False,
        call_id="c",
        cell="",
        step=0,
        role="orchestrator",
        keeps_messages=False,
        model="m",
        stream=False,
    )


def test_a_first_prompt_is_guessed_by_its_bytes() -> None:
    """The estimate uses a fixed number of bytes per token, then the ratio observed in the model's
    responses."""
    sizes, program = PromptSizes(), Program("p", 0.0)
    for known in (None, program):
        assert sizes.estimate(known, asking(800)) == 800 / FIRST_RATIO
    assert sizes.estimate(None, asking(1)) == 1
    sizes.learn(asking(0), 800, 100)
    assert sizes.estimate(program, asking(800)) == 100


def test_a_later_prompt_is_the_context_and_what_is_new() -> None:
    """A prompt shorter than the last one was rebuilt, so all of it is estimated."""
    sizes, program = PromptSizes(), Program("p", 0.0, context_tokens=1000, calls_done=1)
    program.prompt_bytes = 2000
    assert sizes.estimate(program, asking(2400)) == 1000 + 400 / FIRST_RATIO
    assert sizes.estimate(program, asking(2000)) == 1000
    assert sizes.estimate(program, asking(1600)) == 1600 / FIRST_RATIO


def test_the_share_of_a_prompt_that_is_the_same_again() -> None:
    """The share is the whole prompt if only the end of the body differs; text after a difference
    does not count."""
    pieces = [bytes([number]) * PIECE for number in range(10)]
    program = Program("p", 0.0)
    assert common_share(None, ()) == common_share(program, chain_of(b"x")) == 1.0
    program.prompt_chain = chain_of(b"".join(pieces))
    shares = []
    for place in range(10):
        changed = [*pieces[:place], b"-" * PIECE, *pieces[place + 1 :]]
        shares.append(common_share(program, chain_of(b"".join(changed))))
    assert shares == [(place + 0.5) / 10 for place in range(10 - SLACK)] + [1.0] * SLACK
