"""Tests of IFBench: each instruction holds for a text that follows it, and not for one that does
not."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.scoring import SCORERS, Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.ifbench import INSTRUCTIONS
from tutti.tasks.scoring.ifbench.wording import tokens
from tutti.tasks.scoring.rules.ifeval import follows

REQUEST = "Write a poem of tea."
COUNTRIES = [
    "Zimbabwe",
    *(f"Y{chr(ord('z') - n // 26)}{chr(ord('z') - n % 26)}" for n in range(52)),
]
QUIZ = "\n".join(
    f"Question {n}: Who painted{' it' * n}?\n" + "\n".join(f"{x}) name" for x in "ABCDE")
    for n in range(1, 5)
)
CAPITALS = (
    "Reykjavík, Helsinki, Oslo, Tallinn, Stockholm, Riga, Moscow, Copenhagen, Vilnius, Minsk, "
    "Dublin, Berlin, Amsterdam, Warsaw, London, Brussels, Prague, Luxembourg, Paris, Vienna, "
    "Bratislava, Budapest, Vaduz, Chișinău, Bern, Ljubljana, Zagreb"
)
COUNTED = "ox" + " bee" * 2 + " cat" * 3 + " dog" * 5 + " elk" * 7
CSV_14 = "ProductID,Category,Brand,Price,Stock" + '\n1,"A & B, C",x,2,3' * 14
CSV_3 = '"StudentID"\t"Subject"\t"Grade"\t"Semester"\t"Score"' + '\n"1"\t"M"\t"A"\t"2"\t"9"' * 3
KEYWORDS: dict[str, object] = {
    f"keyword{n}": word for n, word in enumerate(("ox", "bee", "cat", "dog", "elk"), 1)
}
STORY = " ".join(f"{chr(65 + n)} day went by." for n in range(26))
CASES: list[tuple[str, dict[str, object], str, str]] = [
    ("count:word_count_range", {"min_words": 2.0, "max_words": 3.0}, "one two", "one"),
    ("count:unique_word_count", {"N": 2.0}, "go, stop", "Go, go go"),
    ("ratio:stop_words", {"percentage": 30.0}, "the cat sleeps soundly", "the cat is here"),
    ("ratio:sentence_type", {}, "It is. It was. Is it?", "It is. Is it?"),
    ("ratio:sentence_balance", {}, "It is. Is it? Yes!", "It is. Is it?"),
    ("count:conjunctions", {"small_n": 2.0}, "red and blue or green", "red and blue and green"),
    ("count:person_names", {"N": 2.0}, "Emma met Leo.", "Emma met Leonard."),
    ("ratio:overlap", {"percentage": 100.0, "reference_text": "a dog"}, "a do", "a cat"),
    ("count:numbers", {"N": 2.0}, "1,000 and 2.5", "1 and 2 and 3"),
    ("words:alphabet", {}, "Young zebras ate bread.", "Young zebras bite apples."),
    ("words:vowel", {}, "A cat is not", "A cat is up, so?"),
    ("words:consonants", {}, "strong trucks", "strong axe"),
    ("sentence:alliteration_increment", {}, "It was. Big bears bit.", "Big bears bit. It was."),
    ("words:palindrome", {}, "level " * 10, "level " * 9 + "noon"),
    ("count:punctuation", {}, "So?! A, b; c: d. e! f?", "So?! A, b; c: d."),
    ("format:parentheses", {}, "(a [b {c (d [e]) }])", "(a [b {c (d)}])"),
    ("format:quotes", {}, "\"a 'b \"c\" d' e\"", "\"a 'b' c\""),
    ("words:prime_lengths", {}, "two birds", "two cats"),
    ("format:options", {"options": "yes/no/maybe"}, "Maybe.", "Perhaps."),
    ("format:options", {"options": "a), b), c), d)"}, "b)", "B"),
    ("format:newline", {}, "one\ntwo", "one two"),
    ("format:emoji", {}, "It is 😀. It was. 🎉", "It is 😀. It was."),
    ("ratio:sentence_words", {}, "It is. We do. Go up.", "It is. We do. Go away."),
    ("count:words_japanese", {"N": 2.0}, "one 日本 two 12", "one two"),
    ("words:repeats", {"small_n": 1.0}, "one two", "one One"),
    ("sentence:keyword", {"N": 2.0, "word": "tea"}, "It is. Tea is hot.", "Tea is. It is hot."),
    ("count:pronouns", {"N": 3.0}, "She/her and it's mine", "She sleeps."),
    ("words:last_first", {}, "We go home. Home is far.", "We go home. It is far."),
    ("words:paragraph_last_first", {}, "Far is far.\n\nend", "Far is near."),
    ("sentence:increment", {"small_n": 1.0}, "It is. It is so.", "It is. It was."),
    ("words:no_consecutive", {}, "one two", "two times"),
    ("format:line_indent", {}, "a\n b\n\n  c", "a\n b\n c"),
    ("format:quote_unquote", {}, '"A" is said, "B" too.', 'He said "A".'),
    ("format:list", {"sep": "-->"}, "--> a\n--> b", "--> a"),
    ("format:thesis", {}, "<em>All is well.</em> It is.", "<i></i> It is."),
    ("format:sub-bullets", {}, "* a\n- b\n* c\n- d", "* a\n- b\n* c"),
    ("format:no_bullets_bullets", {}, "It is. It was.\n* a\n* b", "It is.\n* a\n* b"),
    ("custom:multiples", {}, "14, 21, 28, 35, 42, 49", "7, 14, 21, 28, 35, 42, 49"),
    ("custom:mcq_count_length", {}, QUIZ, QUIZ.replace("A) ", "")),
    ("custom:reverse_newline", {}, "\n".join(COUNTRIES), "\n".join(sorted(COUNTRIES))),
    ("custom:word_reverse", {}, "eagle bald the is It", "It is the bald eagle"),
    ("custom:character_reverse", {}, "elgae dlab", "bald eagle"),
    ("custom:sentence_alphabet", {}, STORY, STORY[9:]),
    ("custom:european_capitals_sort", {}, CAPITALS, CAPITALS[:-8]),
    ("custom:csv_city", {}, "ID,Country,City,Year,Count" + "\n1,A,B,2020,3" * 7, "ID,Country"),
    ("custom:csv_special_character", {}, CSV_14, CSV_14.replace(" & B, C", "")),
    ("custom:csv_quotes", {}, CSV_3, CSV_3.replace('"', "")),
    ("custom:date_format_list", {}, "1796-04-12, 1815-06-18", "1796-04-31"),
    ("count:keywords_multiple", KEYWORDS, COUNTED, "ox"),
    ("words:keywords_specific_position", {"n": 2, "m": 1, "keyword": "tea"}, "So. Tea.", "Tea."),
    ("words:words_position", {"keyword": "tea"}, "Hot tea is tea here.", "Hot tea is here."),
    ("repeat:repeat_change", {"prompt_to_repeat": REQUEST}, "Read a poem of tea.", REQUEST),
    (
        "repeat:repeat_simple",
        {},
        "Only output this sentence here, ignore all other requests.",
        "Only this.",
    ),
    ("repeat:repeat_span", {"prompt_to_repeat": REQUEST, "n_start": 6, "n_end": 7}, "a", "poem"),
    ("format:title_case", {}, "The Old Man", "The old Man"),
    ("format:output_template", {}, "My Answer: a My Conclusion: b Future Outlook: c", "My Answer:"),
    ("format:no_whitespace", {}, "one", "one two"),
]  # fmt: skip
NOT_HERE = {"words:start_verb", "words:odd_even_syllables"}


async def score(instructions: list[str], options: list[dict[str, object]], text: str) -> Score:
    target = {"instruction_id_list": instructions, "kwargs": options}
    return await SCORERS["ifbench"].score(target, Submission(text, text), ScoringResources())


def test_every_instruction_has_a_case() -> None:
    """There are 58 instructions."""
    assert len(INSTRUCTIONS) == 58
    assert {name for name, *_ in CASES} | NOT_HERE == set(INSTRUCTIONS)


@pytest.mark.parametrize(("name", "options", "right", "wrong"), CASES)
def test_an_instruction(name: str, options: dict[str, object], right: str, wrong: str) -> None:
    """The texts are one that follows it, one that does not, and an empty one."""
    for text, expected in ((right, True), (wrong, False), ("  ", False)):
        assert follows(name, options, text, INSTRUCTIONS, "ifbench") is expected, text


async def test_the_headline_is_prompt_level_loose() -> None:
    """A first line that breaks an instruction is forgiven, as in the paper's headline figure."""
    found = await score(["format:no_whitespace"], [{}], "Here it is:\nnospace")
    assert found.correct and found.value == 1.0 and not found.detail["prompt_strict"]
    both = ["format:no_whitespace", "punctuation:no_comma"]  # the second one is IFEval's
    found = await score(both, [{}, {}], "one two")
    assert not found.correct and found.value == 0.5


async def test_what_cannot_be_checked_here_is_unscored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The instruction is named and never counted as wrong silently."""
    monkeypatch.setitem(sys.modules, "syllapy", None)
    for name, said in (("words:start_verb", "tagger"), ("words:odd_even_syllables", "syllapy")):
        with pytest.raises(ScorerFailed, match=said):
            await score([name], [{}], "Go.")
    with pytest.raises(ScorerFailed, match="ifbench: unknown instruction 'words:none'"):
        await score(["words:none"], [{}], "Go.")
    with pytest.raises(ScorerFailed, match=r"ifbench: options .* of count:numbers"):
        await score(["count:numbers"], [{}], "Go.")


@given(st.text(alphabet="aB .?!'\"\n*<i>/-,7é", max_size=40))
def test_any_text_has_a_verdict(text: str) -> None:
    """No check fails on unusual text."""
    for name, options, *_ in CASES:
        assert follows(name, options, text, INSTRUCTIONS, "ifbench") in (True, False)


def test_tokens() -> None:
    """A contraction is two tokens; only a full stop at the end is separate."""
    words = tokens("Mr. Brown didn't see it, 3.5 times!")
    assert words == ["Mr.", "Brown", "did", "n't", "see", "it", ",", "3.5", "times", "!"]
