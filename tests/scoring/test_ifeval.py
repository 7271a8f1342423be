"""Tests of IFEval: every type of instruction followed and not, strictly and loosely, and all its
prompts."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.tasks.scoring import Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.rules.ifeval import (
    INSTRUCTIONS,
    IFEval,
    follows,
    language_of,
    sentences,
    versions,
)

ENGLISH = "this is a plain english sentence, and here is another one about the weather in spring."
GERMAN = "Das ist ein ganz gewöhnlicher deutscher Satz, und hier kommt gleich noch einer dazu."

CASES: list[tuple[str, dict[str, Any], list[str], list[str]]] = [
    # instruction, options, responses that follow it, responses that do not
    (
        "change_case:capital_word_frequency",
        {"capital_relation": "at least", "capital_frequency": 3},
        ["I saw NASA and the U.S. flag", "DON'T STOP HERE", "A WELL-KNOWN X"],
        ["I saw Nasa", "one TWO three FOUR", "P.P.S. AND"],
    ),
    (
        "change_case:capital_word_frequency",
        {"capital_relation": "less than", "capital_frequency": 1},
        ["none here", "Only Titles"],
        ["ONE"],
    ),
    (
        "change_case:english_capital",
        {},
        [ENGLISH.upper()],
        [ENGLISH, GERMAN.upper(), "123 456"],
    ),
    (
        "change_case:english_lowercase",
        {},
        [ENGLISH],
        [ENGLISH.capitalize(), GERMAN.lower(), "1 2"],
    ),
    (
        "combination:repeat_prompt",
        {"prompt_to_repeat": "Say it. Twice?"},
        ["say it. twice? Yes.", "\nSay it. Twice?"],
        ["Sure: Say it. Twice?", "Say it. Twice"],
    ),
    (
        "combination:two_responses",
        {},
        ["one\n******\ntwo", "******\none\n******\ntwo\n******"],
        ["one", "one******one", "one******two******three", "one************two"],
    ),
    (
        "detectable_content:number_placeholders",
        {"num_placeholders": 2},
        ["Dear [name] of [city]", "[[name]] [city] [x]"],
        ["Dear [name]", "[] [name]", "[two\nlines] [name]"],
    ),
    (
        "detectable_content:postscript",
        {"postscript_marker": "P.S."},
        ["Yes.\nP.S. More.", "p. s. more"],
        ["Yes. PS more", "P.S more"],
    ),
    (
        "detectable_content:postscript",
        {"postscript_marker": "P.P.S"},
        ["Yes.\nP.P.S more", "P.P.S. more", "p. p. s more"],
        ["P.S. more"],
    ),
    (
        "detectable_format:constrained_response",
        {},
        ["My answer is yes.", "Well. My answer is maybe. Truly"],
        ["Yes.", "my answer is no", "My answer is no"],
    ),
    (
        "detectable_format:json_format",
        {},
        ['{"a": 1}', "```json\n[1]\n```", "```JSON\n[1]\n```", '```\n"a"\n```', " 3 "],
        ["{a: 1}", 'Here: {"a": 1}', "[" * 100_000],
    ),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Section", "num_sections": 2},
        ["Section 1\na\nSection 2\nb", "Section1 Section2"],
        ["Section 1", "Section A, Section B", "section 1 section 2"],
    ),
    (
        "detectable_format:number_bullet_lists",
        {"num_bullets": 2},
        ["* one\n* two", "- one\n  - two", "- a\n---\n- b"],
        ["* one", "* a\n* b\n* c", "** a\n** b", "1. a\n2. b"],
    ),
    (
        "detectable_format:number_highlighted_sections",
        {"num_highlights": 2},
        ["*a* and *b*", "**a** and **b**", "*a b* **c**"],
        ["*a*", "**a**", "* *", "*two\nlines* *a"],
    ),
    ("detectable_format:title", {}, ["<<A title>>\ntext"], ["<<>>", "< a >", "<< >>", "<<a\nb>>"]),
    (
        "keywords:existence",
        {"keywords": ["Cat", "c++"]},
        ["concatenate C++"],
        ["cat", "dog c++", "cat c"],
    ),
    (
        "keywords:forbidden_words",
        {"forbidden_words": ["bad", "Ugly"]},
        ["badly done", "good"],
        ["it is BAD.", "ugly"],
    ),
    (
        "keywords:frequency",
        {"keyword": "war", "frequency": 2, "relation": "at least"},
        ["War and war", "warwar", "war, war, war"],
        ["war", "peace"],
    ),
    (
        "keywords:frequency",
        {"keyword": "war", "frequency": 2, "relation": "less than"},
        ["war", "peace"],
        ["war war"],
    ),
    (
        "keywords:letter_frequency",
        {"letter": "!", "let_frequency": 2, "let_relation": "at least"},
        ["Hey! You!"],
        ["Hey!"],
    ),
    (
        "keywords:letter_frequency",
        {"letter": "A", "let_frequency": 2, "let_relation": "less than"},
        ["A", "b"],
        ["Aa", "banana"],
    ),
    (
        "language:response_language",
        {"language": "de"},
        [GERMAN, "123"],  # numbers are in no language: the published program lets them pass
        [ENGLISH, "https://"],
    ),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Elm"},
        ["One.\n\nElm, two.", 'One.\n\n"elm" two', "One.\n\n\n\nElm two"],
        ["One.\n\nOak", "Elm.\n\nOne", "One.\n\nElm\n\nThree", "Elm"],
    ),
    (
        "length_constraints:number_paragraphs",
        {"num_paragraphs": 2},
        ["a\n***\nb", "***\na\n***\nb\n***"],
        ["a\n\nb", "a\n***\n***\nb", "a *** b *** c"],
    ),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 3, "relation": "at least"},
        ["One. Two! Three?", "one. two. three."],
        ["Dr. J. Smith came at 5 p.m. today. Two.", "1. One.\n2. Two."],
    ),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 3, "relation": "less than"},
        ["One. Two."],
        ["One. Two. Three", "He said no. Then he left. Why?"],
    ),
    (
        "length_constraints:number_words",
        {"num_words": 3, "relation": "at least"},
        ["one, two, three", "it's two", "one two three four"],
        ["one two", "!!! ???"],
    ),
    ("punctuation:no_comma", {}, ["a; b"], ["a, b"]),
    (
        "startend:end_checker",
        {"end_phrase": "Is that all?"},
        ["Yes. is THAT all?", '"Yes. Is that all?"\n'],
        ["Is that all? No.", "Is that"],
    ),
    ("startend:quotation", {}, ['"All."', ' "a" '], ["All.", '"', '"a', "'a'"]),
]


@pytest.mark.parametrize(("instruction", "options", "yes", "no"), CASES)
def test_followed_and_not(
    instruction: str, options: Mapping[str, Any], yes: list[str], no: list[str]
) -> None:
    for response in yes:
        assert follows(instruction, options, response), response
    for response in [*no, "", " \n"]:
        assert not follows(instruction, options, response), response


def test_every_type_has_a_case() -> None:
    assert {instruction for instruction, *_ in CASES} == INSTRUCTIONS.keys()
    assert len(INSTRUCTIONS) == 25


async def score(text: str, *instructions: tuple[str, dict[str, Any]]) -> Score:
    ids, options = zip(*instructions, strict=True)
    target = {"instruction_id_list": list(ids), "kwargs": list(options)}
    return await IFEval().score(target, Submission(None, text), ScoringResources())


async def test_strict_and_loose() -> None:
    quoted: tuple[str, dict[str, Any]] = ("startend:quotation", {})
    comma = ("punctuation:no_comma", {"keyword": None})
    found = await score('Sure:\n*"All, of it."*', quoted)
    assert (found.value, found.correct, found.detail["loose"]) == (0.0, False, [True])
    found = await score('*"All, of it."*', quoted, comma)
    assert found.detail["loose"] == [True, False]
    assert (found.detail["instruction_loose"], found.detail["prompt_loose"]) == (0.5, False)
    assert (await score('"All."', quoted, comma)).correct


async def test_nothing_at_all_follows_nothing() -> None:
    """This also holds loosely, if removing lines leaves no text and therefore no comma."""
    assert (await score("a, b", ("punctuation:no_comma", {}))).detail["loose"] == [False]


@pytest.mark.parametrize(
    ("ids", "options"),
    [
        (["keywords:unknown"], [{}]),
        (["keywords:existence"], [{}]),
        (["keywords:existence"], []),
        ([], []),
        (
            ["keywords:frequency"],
            [{"keyword": "a", "frequency": 1, "relation": "more or less"}],
        ),
    ],
)
async def test_targets_that_make_no_sense(ids: list[str], options: list[dict[str, Any]]) -> None:
    target = {"instruction_id_list": ids, "kwargs": options}
    with pytest.raises(ScorerFailed):
        await IFEval().score(target, Submission(None, "text"), ScoringResources())


async def test_all_prompts(data: Path) -> None:
    """In all 541 prompts each instruction is known, has its options, and gives a verdict."""
    lines = (data / "ifeval" / "input_data.jsonl").read_text().splitlines()
    prompts = [json.loads(line) for line in lines]
    seen: set[str] = set()
    for prompt in prompts:
        for instruction, options in zip(
            prompt["instruction_id_list"], prompt["kwargs"], strict=True
        ):
            seen.add(instruction)
            assert follows(instruction, options, "Some text.") in (True, False)
    assert len(prompts) == 541
    assert seen == INSTRUCTIONS.keys()


def test_the_language_is_the_same_each_time() -> None:
    """The library draws at random; without a seed, a short text gets different languages."""
    text = "Bon ja no me la de in"
    assert len({language_of(text) for _ in range(20)}) == 1


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("No end", 1),
        ("A title\n\nA sentence.", 1),
        ('"Really?" he asked. Yes!', 3),
        ("Wait... what? Oh.", 2),
        ("It costs 3.50 dollars. See No. 5. No. That is all.", 4),
        ("Use e.g. this. Or i.e. that etc. The end.", 3),
        ("At 5 p.m. we met. At 6 p.m. She left.", 3),
        ("What?! No!!! Yes...", 3),
        ("1. First.\n2. Second.\n", 2),
        ("*Bold end.* Next.", 2),
        ("\u4f60\u597d\u3002\u518d\u89c1\u3002", 2),
    ],
)
def test_sentences(text: str, count: int) -> None:
    assert len(sentences(text)) == count


@settings(deadline=None)
@given(st.text(max_size=80))
def test_versions(text: str) -> None:
    """There are eight versions, the response itself first; a strictly correct response is also
    loosely correct."""
    found = list(versions(text))
    assert len(found) == 8 and found[0] == text
