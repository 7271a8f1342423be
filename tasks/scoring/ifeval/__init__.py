"""IFEval: did the response follow instructions that a program can check?

Target: a line of the data, ``{"instruction_id_list": [id …], "kwargs": [{…} …]}``. Value: the share
of instructions followed, strictly; correct: all of them. The detail has, strictly and loosely, one
boolean an instruction and whether all were followed: means over attempts of the latter are the
prompt-level accuracies, over all booleans the instruction-level ones.

Loose means that one of eight versions of the response follows the instruction: with or without the
first line, the last line, and asterisks. An empty version follows no instruction.

Differences from the published program, with the reason: text in capitals is put in lower case
before its language is detected (there: capitals have no language, so any passes); the n-th
paragraph is counted as paragraphs are counted, without empty ones; keywords are texts, never
patterns; a sign asked for as a "letter" is that sign (there: a letter drawn at random); a rule of
dashes is no bullet; sentences and words in capitals are counted by the rules in `words`.

Source: Zhou et al., "Instruction-following evaluation for large language models", 2023.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tutti.tasks.scoring.ifeval import formats, words
from tutti.tasks.scoring.ifeval.check import Check, Options
from tutti.tasks.scoring.score import Needs, Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.target import needed, said

INSTRUCTIONS: dict[str, Check] = {
    "change_case:capital_word_frequency": words.capital_words,
    "change_case:english_capital": words.all_capital,
    "change_case:english_lowercase": words.all_lowercase,
    "combination:repeat_prompt": formats.repeats_prompt,
    "combination:two_responses": formats.two_responses,
    "detectable_content:number_placeholders": formats.placeholders,
    "detectable_content:postscript": formats.postscript,
    "detectable_format:constrained_response": formats.constrained,
    "detectable_format:json_format": formats.is_json,
    "detectable_format:multiple_sections": formats.sections,
    "detectable_format:number_bullet_lists": formats.bullets,
    "detectable_format:number_highlighted_sections": formats.highlights,
    "detectable_format:title": formats.title,
    "keywords:existence": words.has_keywords,
    "keywords:forbidden_words": words.forbidden,
    "keywords:frequency": words.keyword_count,
    "keywords:letter_frequency": words.letter_count,
    "language:response_language": words.in_language,
    "length_constraints:nth_paragraph_first_word": formats.paragraph_first_word,
    "length_constraints:number_paragraphs": formats.paragraphs,
    "length_constraints:number_sentences": words.sentence_count,
    "length_constraints:number_words": words.word_count,
    "punctuation:no_comma": words.no_comma,
    "startend:end_checker": formats.ends_with,
    "startend:quotation": formats.quoted,
}


def follows(
    instruction: str,
    options: Options,
    response: str,
    checks: Mapping[str, Check] = INSTRUCTIONS,
    scorer: str = "ifeval",
) -> bool:
    """Whether `response` follows one instruction.

    Raises ScorerFailed if the instruction is unknown or lacks an option.
    """
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
    """The detail of a score: what the last message follows, strictly and loosely.

    Raises ScorerFailed, also for an instruction that is not among `checks`.
    """
    instructions = needed(target, "instruction_id_list", list)
    options = needed(target, "kwargs", list)
    if not instructions or len(instructions) != len(options):
        raise ScorerFailed(
            f"{scorer}: the target needs at least one instruction, each with its options"
        )
    response = said(submission)
    strict, loose = [], []
    for instruction, given in zip(instructions, options, strict=True):
        # Some copies of the data give every instruction all options, most of them null.
        set_options = {key: value for key, value in given.items() if value is not None}
        rule = (checks, scorer)
        strict.append(follows(instruction, set_options, response, *rule))
        texts = () if strict[-1] else versions(response)
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


class IFEval:
    """Checks that the response follows its instructions."""

    name: str = "ifeval"
    version: str = "2"
    needs: Needs = "pure"

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """Share of instructions followed by the last message. Raises ScorerFailed."""
        detail = judged(self.name, INSTRUCTIONS, target, submission)
        value, correct = detail["instruction_strict"], detail["prompt_strict"]
        return Score(self.name, self.version, value, correct, detail=detail)
