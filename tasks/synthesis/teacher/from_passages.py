"""Questions about a user's own passages without a model: gaps, definitions, numbers.

In: passages. Out: questions as `documents` has them. A sentence is used if it is the only one in
all passages that has its form with the answer left out, so that a question has one answer:

* number: a sentence with one number, which is left out
* definition: ``Term is a …``: which term is said to be so
* cloze: a sentence with one name (capitalised, not its first word), which is left out
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from tutti.tasks.retrieval import Passage
from tutti.tasks.synthesis.teacher.documents import MOST_ANSWER, DocumentQuestion

FormKind = Literal["number", "definition", "cloze"]
SENTENCE = re.compile(r"[^\s.!?](?:[^.!?\n]|[.](?=\d))*[.](?!\w)")
NUMBER = re.compile(r"(?<![\w.,-])\d+(?:[.,]\d+)*(?![\w-])")
DEFINITION = re.compile(
    r"(?:The |An? )?([A-Za-z][\w-]*(?: [\w-]+){0,3}) (?:is|are) ((?:an?|the) .+)"
)
NAME = re.compile(r"(?<=[a-z,] )[A-Z][\w-]+(?: [A-Z][\w-]+)*")
LEAST_WORDS, MOST_WORDS = 6, 40
"""Shorter sentences say too little to be found, longer ones are lists and tables."""
GAP = "____"
ASKED: Mapping[FormKind, str] = {
    "number": "Which number belongs in the gap? {}",
    "definition": "What do the documents call this: {}",
    "cloze": "Which name belongs in the gap? {}",
}


def questions_from_passages(
    passages: Iterable[Passage],
) -> Iterator[tuple[FormKind, DocumentQuestion]]:
    """All questions, in the passages' order, each with its kind. Reads the passages once and keeps
    the questions; for more passages than memory holds, give parts."""
    found = [each for passage in passages for each in _of_passage(passage)]
    times = Counter(question.question for _, question in found)
    yield from ((kind, each) for kind, each in found if times[each.question] == 1)


def _of_passage(passage: Passage) -> Iterator[tuple[FormKind, DocumentQuestion]]:
    for match in SENTENCE.finditer(passage.text):
        sentence = match[0]
        if not LEAST_WORDS <= len(sentence.split()) <= MOST_WORDS:
            continue
        for kind, answer, shown in _forms(sentence):
            if len(answer) <= MOST_ANSWER and answer.casefold() not in shown.casefold():
                question = ASKED[kind].format(shown)
                yield (
                    kind,
                    DocumentQuestion(
                        question=question, answer=answer, document=passage.id, quote=sentence
                    ),
                )


def _forms(sentence: str) -> Iterator[tuple[FormKind, str, str]]:
    """(kind, answer, what is shown) of a sentence."""
    defined = DEFINITION.fullmatch(sentence)
    if defined is not None:
        yield "definition", defined[1], defined[2]
    gaps: tuple[tuple[FormKind, re.Pattern[str]], ...] = (("number", NUMBER), ("cloze", NAME))
    for kind, pattern in gaps:
        places = list(pattern.finditer(sentence))
        if len(places) == 1:
            start, end = places[0].span()
            yield kind, places[0][0], f"{sentence[:start]}{GAP}{sentence[end:]}"
