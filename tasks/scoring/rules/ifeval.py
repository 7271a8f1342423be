"""IFEval: whether the response follows instructions that a program can check.

Target: a line of the data, ``{"instruction_id_list": [id …], "kwargs": [{…} …]}``. Value: the share
of instructions followed, strictly; correct: all of them. Loose means that one of eight versions of
the response follows the instruction: with or without the first line, the last line, and asterisks.

Differences from the published program: text in capitals is put in lower case before its language is
detected (there any passes); the n-th paragraph is counted without empty ones; keywords are texts,
never patterns; a sign asked for as a "letter" is that sign (there: a letter drawn at random); a
rule of dashes is no bullet; sentences and words in capitals are counted by the rules of `pieces`
and `_CAPITAL_WORD`. Languages are those of langdetect, with its random draws fixed. Source: Zhou et
al., "Instruction-following evaluation for large language models", 2023.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tutti.tasks.scoring.rules.score import Score, Scorer, ScorerFailed, Submission, Target, needed

Options = Mapping[str, Any]  # an instruction's options, as the data name them

Check = Callable[[str, Options], bool]  # takes a non-empty response and the options


def holds(count: int, relation: str, limit: int) -> bool:
    """Whether `count` is "at least" or "less than" `limit`. ValueError for another relation."""
    if relation == "at least":
        return count >= limit
    if relation == "less than":
        return count < limit
    raise ValueError(f"unknown relation {relation!r}")


SEED = 0  # the library samples; with a fixed seed, the same text has the same language
_TITLES = frozenset("mr mrs ms dr prof st mt rev hon gen col capt lt sgt gov sen rep vs".split())
_BEFORE_NUMBERS = frozenset("no nos fig vol ch p pp".split())
_ABBREVIATIONS = frozenset(
    "etc inc ltd co corp jr sr dept est approx e.g i.e a.m p.m u.s u.k ph.d b.a m.a al"
    " jan feb mar apr jun jul aug sep sept oct nov dec".split()
)
_SENTENCE_END = re.compile(
    r"(?:(?<![.!?…])[.!?…]+[\"'\u201d\u2019)\]*_]*(?=\s|$))|[\u3002\uff01\uff1f\u0964]+"
)
_LOOK_BACK = 80  # characters: no abbreviation or list's number is longer
_CAPITAL_WORD = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]\b|[^\W_]+(?:['\u2019-][^\W_]+)*")


def sentences(text: str) -> list[str]:
    return [piece for piece in pieces(text) if re.search(r"\w", piece)]


def pieces(text: str) -> list[str]:
    """The texts between the ends of sentences, including those without words (an emoji by itself).

    A sentence ends with its mark and the quotes or brackets after it, if white space or nothing
    follows, but not after a title ("Dr."), an initial, a list's number, or "No." and the like
    before a number; after another abbreviation or an ellipsis only if a capital follows. A line
    break alone does not end a sentence; text after the last mark is one more sentence.
    """
    found, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        if _ends_sentence(text, start, match):
            found.append(text[start : match.end()].strip())
            start = match.end()
    found.append(text[start:].strip())
    return [piece for piece in found if piece]


def _ends_sentence(text: str, start: int, match: re.Match[str]) -> bool:
    mark = match[0].rstrip("\"'\u201d\u2019)]*_")
    follows = text[match.end() :].lstrip()[:1]
    if mark in ("…", "...") and follows.islower():
        return False
    if mark != ".":
        return True
    before = text[max(start, match.start() - _LOOK_BACK) : match.start()]
    last = (before.split() or [""])[-1].lstrip("\"'\u201c\u2018([*_")
    line_start = before.rpartition("\n")[2].strip(" *-_#")
    if last.isdecimal() and line_start == last:
        return False  # a list's number
    if last.lower() in _TITLES or (len(last) == 1 and last.isupper() and last != "I"):
        return follows == ""
    if last.lower() in _BEFORE_NUMBERS:
        return not follows.isdecimal()
    return not (last.lower() in _ABBREVIATIONS and (follows.islower() or follows.isdecimal()))


def language_of(text: str) -> str | None:
    """Return the most likely language's code; None if the text has no features of any."""
    from langdetect import DetectorFactory, LangDetectException, detect

    DetectorFactory.seed = SEED
    try:
        return str(detect(text))
    except LangDetectException:
        return None


CONSTRAINED = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_BULLET = re.compile(r"^\s*(?:\*[^*]|-)")


def postscript(response: str, options: Options) -> bool:
    """A line holds the marker, as "P.S." or "P.P.S", in any case, a space after each point."""
    letters = [letter for letter in options["postscript_marker"] if letter.isalnum()]
    pattern = r"\.\s?".join(map(re.escape, letters))
    if options["postscript_marker"].endswith("."):
        pattern += r"\."
    return re.search(pattern, response, re.IGNORECASE) is not None


def is_json(response: str, options: Options) -> bool:
    """All of it is JSON, a code fence around it allowed."""
    text = response.strip()
    if text.startswith("```"):
        text = text.removeprefix("```").removesuffix("```")
        text = text[4:] if text[:4].lower() == "json" else text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def sections(response: str, options: Options) -> bool:
    """At least `num_sections` numbered headings: the splitter and a number, as "Section 1"."""
    pattern = re.escape(options["section_spliter"].strip()) + r"\s?\d+"
    return len(re.findall(pattern, response)) >= int(options["num_sections"])


def bullets(response: str, options: Options) -> bool:
    """Exactly `num_bullets` lines that start with "*" (not "**") or "-"."""
    lines = [line for line in response.split("\n") if _BULLET.match(line)]
    rules = sum(set(line) <= set("- \t\r") and line.count("-") > 1 for line in lines)
    found = len(lines) - rules
    return found == int(options["num_bullets"])


def highlights(response: str, options: Options) -> bool:
    """At least `num_highlights` parts of a line within "*" or "**"."""
    single = re.findall(r"\*([^\n*]*)\*", response)
    double = re.findall(r"\*\*([^\n*]*)\*\*", response)
    found = sum(bool(text.strip()) for text in single + double)
    return found >= int(options["num_highlights"])


def title(response: str, options: Options) -> bool:
    """A title in double angular brackets on one line."""
    marked = [(line.find("<<") + 2, line.rfind(">>"), line) for line in response.split("\n")]
    return any(1 < start < end and line[start:end].strip("<> \t") for start, end, line in marked)


def two_responses(response: str, options: Options) -> bool:
    """Two different texts with six asterisks between them."""
    parts = [part.strip() for part in response.split("******")]
    inner = [part for i, part in enumerate(parts) if part or 0 < i < len(parts) - 1]
    return len(inner) == 2 and "" not in inner and inner[0] != inner[1]


def paragraphs(response: str, options: Options) -> bool:
    """Exactly `num_paragraphs` texts with "***" between them; none between two dividers."""
    parts: list[str] = [part.strip() for part in re.split(r"\s?\*\*\*\s?", response)]
    if "" in parts[1:-1]:
        return False
    return sum(part != "" for part in parts) == int(options["num_paragraphs"])


def paragraph_first_word(response: str, options: Options) -> bool:
    """Exactly `num_paragraphs`, by blank lines; the `nth_paragraph` starts with `first_word`."""
    parts = [part.strip() for part in response.split("\n\n") if part.strip()]
    nth = int(options["nth_paragraph"])
    if len(parts) != int(options["num_paragraphs"]) or nth > len(parts):
        return False
    word = parts[nth - 1].split()[0].lstrip("'\"")
    first = re.split(r"[.,?!'\"]", word)[0]
    return first.lower() == str(options["first_word"]).lower()


INSTRUCTIONS: dict[str, Check] = {
    # At least, or less than, `capital_frequency` words in capitals.
    "change_case:capital_word_frequency": lambda text, options: holds(
        sum(word.isupper() for word in _CAPITAL_WORD.findall(text)),
        options["capital_relation"],
        int(options["capital_frequency"]),
    ),
    # English, without a small letter.
    "change_case:english_capital": lambda text, options: (
        text.isupper() and language_of(text.lower()) in ("en", None)
    ),
    # English, without a capital.
    "change_case:english_lowercase": lambda text, options: (
        text.islower() and language_of(text) in ("en", None)
    ),
    # It begins with the request, word for word but for case.
    "combination:repeat_prompt": lambda text, options: (
        text.strip().lower().startswith(str(options["prompt_to_repeat"]).strip().lower())
    ),
    "combination:two_responses": two_responses,
    # At least `num_placeholders` texts in square brackets.
    "detectable_content:number_placeholders": lambda text, options: (
        len(re.findall(r"\[[^\[\]\n]+\]", text)) >= int(options["num_placeholders"])
    ),
    "detectable_content:postscript": postscript,
    # It says one of the three fixed answers.
    "detectable_format:constrained_response": lambda text, options: any(
        answer in text for answer in CONSTRAINED
    ),
    "detectable_format:json_format": is_json,
    "detectable_format:multiple_sections": sections,
    "detectable_format:number_bullet_lists": bullets,
    "detectable_format:number_highlighted_sections": highlights,
    "detectable_format:title": title,
    # Each of `keywords`, in any case, also within a word.
    "keywords:existence": lambda text, options: all(
        keyword.lower() in text.lower() for keyword in options["keywords"]
    ),
    # None of `forbidden_words` as a word, in any case.
    "keywords:forbidden_words": lambda text, options: (
        not any(
            re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE)
            for word in options["forbidden_words"]
        )
    ),
    # `keyword` at least, or less than, `frequency` times, also within words.
    "keywords:frequency": lambda text, options: holds(
        text.lower().count(options["keyword"].strip().lower()),
        options["relation"],
        int(options["frequency"]),
    ),
    # `letter` (or sign) at least, or less than, `let_frequency` times, in any case.
    "keywords:letter_frequency": lambda text, options: holds(
        text.lower().count(options["letter"].lower()),
        options["let_relation"],
        int(options["let_frequency"]),
    ),
    # The response as a whole is in `language`, an ISO 639-1 code.
    "language:response_language": lambda text, options: (
        language_of(text) in (str(options["language"]), None)
    ),
    "length_constraints:nth_paragraph_first_word": paragraph_first_word,
    "length_constraints:number_paragraphs": paragraphs,
    # At least, or less than, `num_sentences` sentences.
    "length_constraints:number_sentences": lambda text, options: holds(
        len(sentences(text)), options["relation"], int(options["num_sentences"])
    ),
    # At least, or less than, `num_words` words.
    "length_constraints:number_words": lambda text, options: holds(
        len(re.findall(r"\w+", text)), options["relation"], int(options["num_words"])
    ),
    "punctuation:no_comma": lambda text, options: "," not in text,
    # The end phrase at the end, but for case and closing quotes.
    "startend:end_checker": lambda text, options: (
        text.strip().strip('"').lower().endswith(str(options["end_phrase"]).strip().lower())
    ),
    # All of it is within double quotes.
    "startend:quotation": lambda text, options: (
        len(text.strip()) > 1 and text.strip()[0] == text.strip()[-1] == '"'
    ),
}


def follows(
    instruction: str,
    options: Options,
    response: str,
    checks: Mapping[str, Check] = INSTRUCTIONS,
    scorer: str = "ifeval",
) -> bool:
    """Whether `response` follows one instruction. Raises ScorerFailed if it cannot be checked."""
    check = checks.get(instruction)
    if check is None:
        raise ScorerFailed(f"{scorer}: unknown instruction {instruction!r}")
    try:
        return response.strip() != "" and check(response, options)
    except (KeyError, ValueError) as error:
        raise ScorerFailed(f"{scorer}: options {options} of {instruction}: {error!r}") from error


def versions(response: str) -> Iterator[str]:
    """The eight versions of a response that the loose rule checks, the unchanged one first."""
    lines = response.split("\n")
    cuts = (lines, lines[1:], lines[:-1], lines[1:-1])
    for text in (response, *("\n".join(cut).strip() for cut in cuts[1:])):
        yield text
        yield text.replace("*", "")


def judged(
    scorer: str, checks: Mapping[str, Check], target: Mapping[str, Any], submission: Submission
) -> dict[str, Any]:
    """The detail of a score. Raises ScorerFailed, also for an instruction not among `checks`."""
    instructions = needed(target, "instruction_id_list", list)
    options = needed(target, "kwargs", list)
    if not instructions or len(instructions) != len(options):
        raise ScorerFailed(f"{scorer}: the target needs instructions, each with its options")
    strict, loose = [], []
    for instruction, given in zip(instructions, options, strict=True):
        # Some copies of the data give every instruction all options, most of them null.
        set_options = {key: value for key, value in given.items() if value is not None}
        rule = (checks, scorer)
        strict.append(follows(instruction, set_options, submission.final_text, *rule))
        texts = () if strict[-1] else versions(submission.final_text)
        loose.append(
            strict[-1] or any(follows(instruction, set_options, text, *rule) for text in texts)
        )
    return {
        "instructions": instructions,
        "strict": strict,
        "loose": loose,
        "prompt_strict": all(strict),
        "prompt_loose": all(loose),
        "instruction_strict": sum(strict) / len(strict),
        "instruction_loose": sum(loose) / len(loose),
    }


class IFEval(Scorer):
    """Checks that the response follows its instructions."""

    name = "ifeval"
    version = "2"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        detail = judged(self.name, INSTRUCTIONS, target, submission)
        return self.result(detail["prompt_strict"], detail["instruction_strict"], detail=detail)
