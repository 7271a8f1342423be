r"""Multiple choice by letter. Target: ``{"answer": "C", "choices": 4 or the choices' texts}``.

The letter is read from the first of these that exists: the attempt's answer; the last line with a
``\boxed{}``; the last ``<answer>C</answer>`` or ``{"answer": "C"}``; the last line with "Answer:
C", "the answer is (C)", "C is the answer" (or the first of these in Chinese), or with the heading
"Answer" above the answer; a last message that is only a letter. It must be one letter ("C", "(c)",
"C. Paris", "Option C", ``\text{C}``) or the whole text of one choice; after "answer:" a reason may
follow. Ambiguous answers are wrong: two letters ("C or D", two boxes, tags or lines that differ), a
letter beyond the choices, or "A cat" (an article?).
"""

import re
from collections.abc import Sequence

from tutti.tasks.agents import BOXED_START, last_boxed
from tutti.tasks.scoring.rules.score import Score, Scorer, ScorerFailed, Submission, Target, needed

LETTERS = "ABCDEFGHIJ"  # MMLU-Pro has ten options
_WRAPPED = re.compile(r"\\(?:text|mathrm|textbf|mathbf|boldsymbol)\s*\{([^{}]*)\}")
_MARKS = re.compile(r'[*_`$"\u201c\u201d]+|\\[()\[\]]')
_WIDE = str.maketrans("\uff1a\uff08\uff09\uff0e\uff0c\uff01\u3002\u3001", ":().,!.,") | {
    0xFF21 + place: letter for place, letter in enumerate(LETTERS)
}
"""Full-width marks and letters, as Chinese and Japanese texts have them."""
_NAMES = r"(?:final[ _]?)?(?:answer|option|choice)"
_TAGGED = re.compile(
    rf"<(?P<tag>{_NAMES})>\s{{0,20}}(?P<inside>[^<>]{{1,400}})</(?P=tag)>"
    rf"|(?P<quote>[\"']){_NAMES}(?P=quote)\s{{0,20}}:\s{{0,20}}"
    r"(?:(?P<around>[\"'])(?P<value>(?:(?!(?P=around)).){0,400})(?P=around)|(?P<other>[^\s\"']))",
    re.IGNORECASE,
)
_HEADING = re.compile(
    r"(?i)#*\s*(?:the\s+)?(?:final\s+|correct\s+|my\s+)*(?:answer|option|choice|\u7b54\u6848)(?:\s+is)?\s*:?"
)
_STATED = re.compile(
    r"(?i)(?:^|[^a-z])(?:(?:answer|option|choice)\s*(?:is|(?:would|should|must|will) be|:|=)"
    r"|\u7b54\u6848\s*(?:\u662f|\u4e3a|\u70ba|:))\s*:?\s*(?P<rest>\S.*)$"
)
_NAMED = re.compile(
    r"^(?:(?i:so|thus|hence|therefore)\b,?\s*)?(?i:option |choice |answer )?\(?(?P<rest>[A-J])\)? "
    r"(?i:is the (?:(?:correct|right|best|final) )*(?:answer|option|choice)|is (?:correct|right))"
    r"[.!]*$"
)
_ALONE = re.compile(r"(?i)^(?:(?:the )?(?:correct )?(?:option|choice|answer)"
                    r"(?: is| (?:would|should|must|will) be)?:?\s+)?"
                    r"[(\[]?([a-z])[)\].:,;!]*$")  # fmt: skip
_WITH_TEXT = re.compile(
    r"^(?:[Oo]ption |[Cc]hoice )?(?:[(\[]([A-Z])[)\]][.:]?|([A-Z])[.:)])\s+(.+)$"
)
_REASONED = re.compile(r"^\(?([A-J])\)?,? *(?:because|since|as|for|which)\b")
_APART = re.compile(r"^\(?([A-J])\)?(?: *[,;:.\u2013\u2014-] | +\()(.*)$")
_LETTER = re.compile(r"(?<![A-Za-z'\u2019])\(?([A-J])\)?(?![A-Za-z'\u2019])")


def read_letter(text: str, letters: str = LETTERS, choices: Sequence[str] = ()) -> str | None:
    """The letter that a short answer names, or whose choice it repeats; None if not exactly one."""
    plain = _MARKS.sub("", _WRAPPED.sub(r"\1", text.translate(_WIDE))).strip()
    match = _ALONE.match(plain.strip("'\u2018\u2019"))
    if match:
        letter = match[1].upper()
        return letter if letter in letters else None
    match = _WITH_TEXT.match(plain)
    if match:
        letter = match[1] or match[2]
        here = choices[letters.find(letter) :][:1]
        same = [_folded(each) for choice in here for each in (choice, _MARKS.sub("", choice))]
        others = set(_LETTER.findall(match[3])) & set(letters) - {letter}
        certain = not others or _folded(match[3]) in same
        return letter if letter in letters and certain else None
    wordings = [_folded(choice) for choice in choices]
    bare = [_folded(_MARKS.sub("", choice)) for choice in choices]
    for given, known in ((text, wordings), (plain, wordings), (plain, bare)):
        equal = [place for place, choice in enumerate(known) if choice == _folded(given)]
        if equal:
            return letters[equal[0]] if len(equal) == 1 else None
    return None


def _folded(text: str) -> str:
    return " ".join(text.split()).rstrip(".").casefold()


def read_choice(submission: Submission, letters: str, choices: Sequence[str] = ()) -> str | None:
    """The attempt's letter, by the rules above; None if there is none or more than one."""
    text = submission.text if submission.answer is None else submission.answer
    if submission.answer is not None and (letter := read_letter(text, letters, choices)):
        return letter
    text = text.translate(_WIDE)
    boxed = [line for line in text.splitlines() if BOXED_START in line]
    tagged = list(_TAGGED.finditer(text))
    if boxed:
        # A nested box is read as its inside; an unclosed box gives no letter.
        boxes = [last_boxed(BOXED_START + rest) or "" for rest in boxed[-1].split(BOXED_START)[1:]]
        found = {read_letter(answer, letters, choices) for answer in boxes}
    elif tagged:
        found = {read_letter(each, letters, choices) for each in _side_by_side(text, tagged)}
        found |= {_stated_letter(text[tagged[-1].end() :], letters, choices)} - {None}
    elif _last_statement(text):
        found = {_stated_letter(text, letters, choices)}
    else:
        found = {read_letter(text, letters, choices)}
    return found.pop() if len(found) == 1 else None


def _side_by_side(text: str, tagged: Sequence[re.Match[str]]) -> list[str]:
    together = [tagged[-1]]
    for match in reversed(tagged[:-1]):
        between = text[match.end() : together[-1].start()]
        if "\n" in between and re.search(r"[A-Za-z]", between):
            break
        together.append(match)
    return [match["inside"] or match["value"] or "" for match in together]


def _last_statement(text: str) -> list[str]:
    """The rest of the line of the last statement, or the lines under its heading."""
    below: list[str] = []
    for line in reversed(text.splitlines()):
        plain = _MARKS.sub("", line).strip()
        if match := _STATED.search(plain) or _NAMED.match(plain.rpartition(". ")[2]):
            return [match["rest"]]
        if below and _HEADING.fullmatch(plain):
            return below[::-1]
        if plain:
            below.append(plain)
    return []


def _stated_letter(text: str, letters: str, choices: Sequence[str]) -> str | None:
    """The letter stated last; None if a line under its heading states another one."""
    stated = _last_statement(text)
    if not stated:
        return None
    letter = read_letter(stated[0], letters, choices)
    if letter is None:  # reasons may follow it: "C, because ..."
        plain = _WRAPPED.sub(r"\1", stated[0]).strip()
        match = _REASONED.match(plain)
        if match is None and (match := _APART.match(plain)):
            ambiguous = set(_LETTER.findall(match[2])) & set(letters) - {match[1]}
            match = None if ambiguous else match
        letter = match[1] if match and match[1] in letters else None
    others = {read_letter(line, letters) for line in stated[1:]} - {letter, None}
    return None if others else letter


class Choice(Scorer):
    """Checks the letter of a multiple-choice answer."""

    name = "choice"
    version = "3"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        choices = target.get("choices", len(LETTERS))
        count = choices if isinstance(choices, int) else len(choices)
        if not 2 <= count <= len(LETTERS):
            raise ScorerFailed(f"the target has {count} choices; 2 to {len(LETTERS)} are known")
        expected = needed(target, "answer", str).strip().upper()
        if len(expected) != 1 or expected not in LETTERS[:count]:
            raise ScorerFailed(f"the target's answer {expected!r} is none of {LETTERS[:count]}")
        wordings = () if isinstance(choices, int) else [str(choice) for choice in choices]
        letter = read_choice(submission, LETTERS[:count], wordings)
        return self.result(letter == expected, answer=letter, found_answer=letter is not None)
