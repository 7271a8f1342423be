"""IFBench: 58 instructions that a program can check, other than IFEval's 25.

Target and detail are IFEval's, and so are the strict and the loose rule. Value: the share of
instructions followed loosely; correct: all of them loosely, since the paper's headline is
prompt-level loose accuracy. Instructions of IFEval are known too: the official program has both.

``words:start_verb`` needs a part-of-speech tagger, ``words:odd_even_syllables`` the package
syllapy: without them the attempt has a scorer error that says so, and counts as unscored.

Differences from the published program, with the reason: sentences and tokens are parted by rules of
ours, not by NLTK's models; blank lines in a row never count as lines of stairs (there: every second
one does); italics by ``<em>`` need a text within and after them, as by ``<i>``; months and days
begin at 1.

Source: Pyatkin et al., "Generalizing verifiable instruction following", 2025, arXiv 2507.02833.
"""

from tutti.tasks.scoring.ifbench import layout, wording
from tutti.tasks.scoring.ifeval import INSTRUCTIONS as IFEVALS
from tutti.tasks.scoring.ifeval import Check, judged
from tutti.tasks.scoring.score import Score, Scorer, Submission, Target

INSTRUCTIONS: dict[str, Check] = {
    "count:conjunctions": wording.conjunctions,
    "count:keywords_multiple": wording.keywords,
    "count:numbers": wording.numbers,
    "count:person_names": wording.names,
    "count:pronouns": wording.pronouns,
    "count:punctuation": wording.punctuation,
    "count:unique_word_count": wording.unique_words,
    "count:word_count_range": wording.word_range,
    "count:words_japanese": wording.japanese,
    "custom:character_reverse": layout.eagle_by_letters,
    "custom:csv_city": layout.csv_city,
    "custom:csv_quotes": layout.csv_quotes,
    "custom:csv_special_character": layout.csv_special_character,
    "custom:date_format_list": layout.dates,
    "custom:european_capitals_sort": layout.capitals,
    "custom:mcq_count_length": layout.quiz,
    "custom:multiples": layout.multiples,
    "custom:reverse_newline": layout.countries,
    "custom:sentence_alphabet": layout.story,
    "custom:word_reverse": layout.eagle_by_words,
    "format:emoji": layout.emoji,
    "format:line_indent": layout.stairs,
    "format:list": layout.separators,
    "format:newline": layout.newline,
    "format:no_bullets_bullets": layout.sentences_then_bullets,
    "format:no_whitespace": layout.no_whitespace,
    "format:options": layout.one_option,
    "format:output_template": layout.template,
    "format:parentheses": layout.parentheses,
    "format:quote_unquote": layout.quote_unquote,
    "format:quotes": layout.quotes,
    "format:sub-bullets": layout.sub_bullets,
    "format:thesis": layout.thesis,
    "format:title_case": layout.title_case,
    "ratio:overlap": wording.overlap,
    "ratio:sentence_balance": wording.balanced,
    "ratio:sentence_type": wording.two_to_one,
    "ratio:sentence_words": wording.three_alike,
    "ratio:stop_words": wording.stop_words,
    "repeat:repeat_change": layout.repeat_changed,
    "repeat:repeat_simple": layout.repeat_simple,
    "repeat:repeat_span": layout.repeat_span,
    "sentence:alliteration_increment": wording.alliteration,
    "sentence:increment": wording.increment,
    "sentence:keyword": wording.keyword_in_sentence,
    "words:alphabet": wording.alphabet,
    "words:consonants": wording.consonants,
    "words:keywords_specific_position": wording.keyword_at,
    "words:last_first": wording.last_first,
    "words:no_consecutive": wording.no_consecutive,
    "words:odd_even_syllables": wording.syllables,
    "words:palindrome": wording.palindromes,
    "words:paragraph_last_first": wording.paragraph_ends,
    "words:prime_lengths": wording.prime_lengths,
    "words:repeats": wording.repeats,
    "words:start_verb": wording.start_verb,
    "words:vowel": wording.vowels,
    "words:words_position": wording.second_and_last_but_one,
}


class IFBench(Scorer):
    """Checks that the response follows its instructions, loosely."""

    name = "ifbench"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        """Share of instructions followed by the last message. Raises ScorerFailed, also for an
        instruction that cannot be checked here."""
        detail = judged(self.name, {**IFEVALS, **INSTRUCTIONS}, target, submission)
        value, correct = detail["instruction_loose"], detail["prompt_loose"]
        return Score(self.name, self.version, value, correct, detail=detail)
