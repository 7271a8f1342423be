"""Tests of multiple choice: one letter is read, and two are never guessed between."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.tasks.scoring import ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.rules.choice import LETTERS, Choice, read_choice, read_letter

CITIES = ["Lyon", "Rome", "Paris", "Bern"]


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("C", "C"),
        ("(c)", "C"),
        ("C.", "C"),
        ("**C**", "C"),
        ("C. Paris", "C"),
        ("(C) Paris", "C"),
        ("C) Paris", "C"),
        ("C) the capital", "C"),  # other words than the choice's, and no other letter
        (r"\text{C}", "C"),
        (r"\textbf{(C)}", "C"),
        ("Option C", "C"),
        ("The answer is C.", "C"),
        ("paris", "C"),
        ("C or D", None),
        ("C. or D.", None),
        ("C, D", None),
        ("A cat", None),
        ("A is wrong", None),
        ('"C"', "C"),
        ("'C'", "C"),
        ("\u201cC\u201d.", "C"),
        ('"Paris"', "C"),
        ('"C" or "D"', None),
        ("E", None),
        ("Rome or Paris", None),
        ("", None),
    ],
)
def test_short_answers(text: str, letter: str | None) -> None:
    assert read_letter(text, "ABCD", CITIES) == letter


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("I think of B first.\nAnswer: C", "C"),
        ("**Answer:** (C)", "C"),
        ("So the correct answer is C.", "C"),
        ("Answer: B\nWait.\nAnswer: C", "C"),
        (r"B? No: \boxed{C}", "C"),
        (r"\boxed{\text{C}}", "C"),
        (r"\boxed{B} or \boxed{C}", None),
        (r"\boxed{B}, again \boxed{B}", "B"),
        (r"Answer: B, \boxed{?}", None),
        ("Answer: B or C", None),
        ("It is B, since C is not.", None),
        ("D", "D"),
        ("The answer is C, because B is not.", "C"),
        ("Answer: A since it is so", "A"),
        ("Answer: C (Paris)", "C"),
        ("Answer: C - Paris", "C"),
        ("The correct option is C.", "C"),
        ("Answer: C, D", None),
        ("Answer: C - or B", None),
        ("The answer is A cat", None),
        (r"\boxed{C", None),
    ],
)
def test_messages(text: str, letter: str | None) -> None:
    assert read_choice(Submission(None, text), "ABCD", CITIES) == letter


FORMS = [
    ("### Answer\nC", "C"),
    ("Because.\n\n## Final answer:\n\n**C. Paris**\n\nThis is so since B is not.", "C"),
    ("**Answer:**\nC, because B is not", "C"),
    ("### Answer\nB\n### Answer\nC", "C"),
    ("### Answer\nB\nC", None),
    ("### Answer\nB or C", None),
    ("### Answer\nA cat", None),
    ("### Answer", None),
    ("<answer>C</answer>", "C"),
    ("B? No.\n<answer>\n  (C) Paris\n</answer>\nThis choice is best.", "C"),
    ("The form is <answer>X</answer>.\nSo it is\n<answer>C</answer>", "C"),
    ("<answer>B</answer>\nNo, wait.\n<answer>C</answer>", "C"),
    ("<answer>B</answer> or <answer>C</answer>", None),
    ("<answer>B</answer>\n\n<answer>C</answer>", None),
    ("<answer>C</answer>\n<answer>C</answer>", "C"),
    ("<answer>B or C</answer>", None),
    ("<answer>C</answer>\nAnswer: B", None),
    ("<answer>C</answer>\nAnswer: C", "C"),
    ("Answer: B\n<answer>C</answer>", "C"),
    ("<answer>C", None),
    ('{"answer": "C"}', "C"),
    ('{"Answer" : "c. Paris"}', None),
    ('{"reason": "B is not", "answer": "C. Paris"}', "C"),
    ("{'answer': 'C'}", "C"),
    ('So:\n```json\n{\n  "reason": "x",\n  "answer": "C"\n}\n```', "C"),
    ('{"answer": ["B", "C"]}', None),
    ('{"answer": null}', None),
    ('{"answer": "B", "answer": "C"}', None),
    ('{"answer": "B",\n "answer": "C"}', None),
    ('[{"answer": "B"}, {"answer": "C"}]', None),
    ('{"answer": "C"}\nThe answer is D.', None),
    ('Answer: "C"', "C"),
    ('Answer: "C", because "B" is not', "C"),
    ('Answer: "B" or "C"', None),
]

FORMS += [
    ("Answer: C!", "C"),
    (r"Answer: \(C\)", "C"),
    (r"\(C\)", "C"),
    (r"The answer is \[C\].", "C"),
    ("Answer\uff1aC", "C"),
    ("\u7b54\u6848\uff1aC", "C"),
    ("\u6240\u4ee5\u6b63\u786e\u7b54\u6848\u662f\uff08C\uff09\u3002", "C"),
    ("\u7b54\u6848\uff1aB\u6216C", None),
    ("C is the answer", "C"),
    ("B fails. So C is the correct answer.", "C"),
    ("(C) is correct!", "C"),
    ("B or C is the answer", None),
    ("It is not clear that C is the answer", None),
    ("C is the answer\nAnswer: B", "B"),
    ("The answer would be B", "B"),
    ("The answer would not be B", None),
    ("The correct option must be (B).", "B"),
    ("C is wrong", None),
    ("C?", None),
]


@pytest.mark.parametrize(("text", "letter"), FORMS)
def test_forms_of_messages_and_of_answers(text: str, letter: str | None) -> None:
    """The forms are headings, tags, objects and quotation marks, in a message or as the answer
    itself."""
    assert read_choice(Submission(None, text), "ABCD", CITIES) == letter
    assert read_choice(Submission(text, text), "ABCD", CITIES) == letter


def test_choices_with_marks_of_their_own() -> None:
    """Choices can be repeated with and without the marks; "$5" and "5" are different."""
    assert read_letter('"Hamlet"', "AB", ['"Hamlet"', "Lear"]) == "A"
    assert read_letter("Hamlet", "AB", ['"Hamlet"', "Lear"]) == "A"
    assert read_choice(Submission(None, 'Answer: "Hamlet"'), "AB", ['"Hamlet"', "Lear"]) == "A"
    assert [read_letter(text, "AB", ["$5", "5"]) for text in ("$5", "5")] == ["A", "B"]


def test_a_choices_own_words_may_name_another_letter() -> None:
    """Repeating the text of the letter's choice is an answer; the same text after another letter is
    none."""
    vitamins = ["Vitamin D", "Vitamin A", "Vitamin C", "Vitamin B"]
    assert read_letter("A. Vitamin D", "ABCD", vitamins) == "A"
    assert read_letter("B. Vitamin D", "ABCD", vitamins) is None


@settings(deadline=None)
@given(st.sampled_from(LETTERS), st.sampled_from(LETTERS))
def test_two_letters_are_no_answer(one: str, other: str) -> None:
    for text in (f"{one} or {other}", f"{one} and {other}", f"{one}/{other}", f"{one}{other}"):
        assert read_letter(text) is None


WORDED = (
    *("{}", "({})", "{}.", "{}!", "**{}**", r"\({}\)", r"\text{{{}}}", "Option {}"),
    *("Answer: {}", "Answer: ({})!", "**Answer:** {}", "The answer is {}.", "Answer\uff1a{}"),
    *("The answer would be {}", "{} is the answer", "So ({}) is the correct option."),
    *(
        "\u7b54\u6848\uff1a{}",
        "\u7b54\u6848\u662f{}\u3002",
        r"So \boxed{{{}}}",
        "<answer>{}</answer>",
    ),
    *('{{"answer": "{}"}}', "### Answer\n{}"),
)


@settings(deadline=None)
@given(st.sampled_from(LETTERS), st.sampled_from(WORDED), st.booleans())
def test_a_letter_in_every_form_is_read_as_itself(letter: str, form: str, first: bool) -> None:
    """This holds after other words, too, if the form is not the whole message."""
    text = form.format(letter)
    text = f"We look at it.\n{text}" if first and WORDED.index(form) > 7 else text
    for submission in (Submission(None, text), Submission(text, text)):
        assert read_choice(submission, LETTERS) == letter


@settings(deadline=None)
@given(st.text(max_size=40))
def test_never_a_letter_that_is_not_there(text: str) -> None:
    letter = read_letter(text)
    assert letter is None or letter in text.upper()


async def test_scores_up_to_ten_choices() -> None:
    target = {"answer": "J", "choices": 10}
    score = await Choice().score(target, Submission("(J)"), ScoringResources())
    assert score.correct and score.answer == "J"


@pytest.mark.parametrize(
    "target", [{}, {"answer": "E", "choices": 4}, {"answer": "AB"}, {"answer": "A", "choices": 11}]
)
async def test_a_target_without_a_letter_is_an_error(target: dict[str, object]) -> None:
    with pytest.raises(ScorerFailed):
        await Choice().score(target, Submission("A"), ScoringResources())
