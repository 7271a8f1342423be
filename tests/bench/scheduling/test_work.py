"""Tests of the bench's programs: reproducible, of the specified lengths, and different in each
arm."""

import statistics
from dataclasses import replace
from itertools import pairwise

import pytest

from bench.scheduling.engine import SETUPS
from bench.scheduling.work import (
    HEAVY_LIMIT,
    MIXED_LIMITS,
    SHAPES,
    TEMPLATE_TOKENS,
    WORDS,
    Message,
    Program,
    Sizes,
    make_programs,
    start_offsets,
    total_calls,
)

SIZES = SETUPS["small"].sizes
ANSWER = " ".join(WORDS[: SIZES.answer_tokens])


def made(
    shape: str = "append", count: int = 4, seed: str = "1", arm: str = "direct"
) -> list[Program]:
    return list(make_programs(SIZES, SHAPES[shape], count, seed, arm))


def tokens(messages: list[Message]) -> int:
    """Count tokens as the bench's tokenizer and template do, including the opening of the reply."""
    return sum(len(m["content"].split()) + TEMPLATE_TOKENS for m in messages) + 2


def prompts(program: Program) -> list[list[Message]]:
    found = [program.first_messages()]
    for step in range(1, program.calls):
        found.append(program.next_messages(found[-1], step, ANSWER))
    return found


def test_words_are_apart() -> None:
    assert len(set(WORDS)) == len(WORDS) > 500


@pytest.mark.parametrize("shape", SHAPES)
def test_same_seed_same_programs(shape: str) -> None:
    assert made(shape) == made(shape)
    assert made(shape) != made(shape, seed="2")
    assert total_calls(made(shape)) == 4 * SIZES.calls


@pytest.mark.parametrize("shape", SHAPES)
def test_arms_share_sizes_and_pauses_but_no_words(shape: str) -> None:
    for one, other in zip(made(shape), made(shape, arm="cap-16"), strict=True):
        assert one.pauses_s == other.pauses_s
        assert list(map(tokens, prompts(one))) == list(map(tokens, prompts(other)))
        assert one.task.split()[:8] != other.task.split()[:8]


def test_prompts_grow_from_first_to_last() -> None:
    lengths = [tokens(messages) for messages in prompts(made()[0])]
    assert lengths[0] == SIZES.first_tokens
    assert lengths[-1] == pytest.approx(SIZES.last_tokens, rel=0.01)
    assert {b - a for a, b in pairwise(lengths)} == {SIZES.growth_tokens}


def test_appended_prompts_begin_with_the_one_before() -> None:
    for before, after in pairwise(prompts(made()[0])):
        assert after[: len(before)] == before


def test_rebuilt_prompts_keep_the_task_alone_and_are_cut() -> None:
    program = made("rebuilt")[0]
    found = prompts(program)
    for before, after in pairwise(found):
        assert len(after) == 2 and after[0] == before[0]
        assert after[1]["content"].split()[:8] != before[1]["content"].split()[:8]
    assert len(found[-1][1]["content"].split()) == program.cut_tokens


def test_reusable_tokens() -> None:
    assert made()[0].reusable_tokens(0, 0) == 0
    assert made()[0].reusable_tokens(3, 824) == 824
    rebuilt = made("rebuilt")[0]
    assert rebuilt.reusable_tokens(3, 824) == len(rebuilt.task.split()) + TEMPLATE_TOKENS


def test_mixed_sizes_are_one_to_four() -> None:
    lengths = [tokens(prompts(program)[-1]) for program in made("mixed", 200)]
    lowest, highest = (SIZES.last_tokens * limit for limit in MIXED_LIMITS)
    assert min(lengths) >= lowest * 0.98 and max(lengths) <= highest * 1.02
    assert max(lengths) > 2.5 * min(lengths)
    for setup in SETUPS.values():
        longest = setup.sizes.last_tokens * MIXED_LIMITS[1] + setup.sizes.answer_tokens
        assert longest < setup.model.context
    assert statistics.mean(lengths) == pytest.approx(SIZES.last_tokens, rel=0.1)


def pauses(shape: str, sizes: Sizes = SIZES) -> list[float]:
    programs = make_programs(sizes, SHAPES[shape], 1000, "1", "direct")
    return sorted(pause for program in programs for pause in program.pauses_s)


def test_pauses_are_uniform_or_exponential() -> None:
    found = pauses("append")
    assert min(found) >= SIZES.pause_low_s and max(found) <= SIZES.pause_high_s
    assert statistics.mean(found) == pytest.approx(SIZES.pause_mean_s, rel=0.05)
    exponential = pauses("append", replace(SIZES, pause_low_s=0.0, pause_high_s=0.0))
    assert statistics.mean(exponential) == pytest.approx(SIZES.pause_mean_s, rel=0.1)
    assert statistics.median(exponential) < 0.8 * SIZES.pause_mean_s


def test_heavy_pauses_have_the_mean_and_a_tail() -> None:
    found = pauses("heavy")
    assert statistics.mean(found) == pytest.approx(SIZES.pause_mean_s, rel=0.2)
    assert found[int(len(found) * 0.99)] > 8 * SIZES.pause_mean_s
    assert max(found) <= HEAVY_LIMIT * SIZES.pause_mean_s


def test_only_no_release_keeps_silent() -> None:
    assert [name for name, shape in SHAPES.items() if not shape.releases] == ["no_release"]


def test_starts_are_staggered_and_the_same_each_time() -> None:
    starts = start_offsets(16, 0.5, "1")
    assert starts == start_offsets(16, 0.5, "1") != start_offsets(16, 0.5, "2")
    assert len(starts) == 16 and 0.0 <= min(starts) < max(starts) <= 0.5
