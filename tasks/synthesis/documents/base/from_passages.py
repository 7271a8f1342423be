"""Questions about a user's own passages without a model: gaps, definitions, numbers.

In: passages in their index's order. Out: questions with their sources. A sentence is used if no
other one in the passages has the same form with the answer left out. The answer is its one number,
its one name (capitalised, not the first word), its one span of code, or the term that it defines.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, get_args

from tutti.tasks.agents import Oracle, ToolUse
from tutti.tasks.retrieval import Passage
from tutti.tasks.synthesis.documents.base.question import MOST_ANSWER, DocumentQuestion
from tutti.tasks.synthesis.documents.base.sentences import Sentence, read_sentences, sentences_of
from tutti.tasks.task_sets import Task

FormKind = Literal["number", "definition", "name", "term"]
KINDS: tuple[FormKind, ...] = get_args(FormKind)
NUMBER = re.compile(r"(?<![\w.,:/#$=<>^+-])\d+(?:[.,]\d+)*(?![\w:/=^-]|[.,]\d)")
DEFINITION = re.compile(
    r"(?:The |An? )?([A-Za-z][\w-]*(?: [\w-]+){0,3}) (?:is|are) ((?:an?|the) .+)"
)
PHRASE = re.compile(r"\b(?:of|in|on|at|to|for|from|with|by|under|over|and|or|as|that)\b", re.I)
"""In what is no term, but the beginning of a sentence."""
NAME = re.compile(r"(?<=[a-z,] )[A-Z][\w-]+(?: [A-Z][\w-]+)*")
TERM = re.compile(r"-{0,2}[A-Za-z][\w./-]{2,39}")
LEAST_WORDS, MOST_WORDS = 8, 40
"""Shorter sentences say too little to be found, longer ones are lists."""
GAP = "____"
ASKED: Mapping[FormKind, str] = {
    "number": "Which number belongs in the gap",
    "definition": "Which term is described so",
    "name": "Which name belongs in the gap",
    "term": "Which term belongs in the gap",
}
Form = tuple[FormKind, str, str]
"""(kind, answer, the sentence without it)"""


def questions_from_passages(
    passages: Iterable[Passage],
) -> Iterator[tuple[FormKind, DocumentQuestion]]:
    """Yield all questions, in the passages' order, each with its kind. All questions are held in
    memory; for more passages than fit, pass parts."""
    found = [
        (form, passage, sentence)
        for passage, sentence in read_sentences(passages)
        for form in forms(sentence)
    ]
    times = Counter((kind, shown) for (kind, _, shown), _, _ in found)
    for (kind, answer, shown), passage, sentence in found:
        if times[kind, shown] == 1:
            of = f' in "{passage.title}"' if passage.title else ""
            asked = f"{ASKED[kind]}{of}? {shown}"
            yield (
                kind,
                DocumentQuestion(
                    question=asked, answer=answer, document=passage.id, quote=sentence.raw
                ),
            )


def forms(sentence: Sentence) -> Iterator[Form]:
    """Yield the forms in which a sentence can be a question."""
    text = sentence.plain
    if not text.endswith(".") or not LEAST_WORDS <= len(text.split()) <= MOST_WORDS:
        return
    defined = DEFINITION.fullmatch(text)
    if defined is not None and PHRASE.search(defined[1]) is None:
        yield "definition", defined[1], defined[2]
    for kind, (start, end) in _gaps(sentence):
        answer, shown = text[start:end], f"{text[:start]}{GAP}{text[end:]}"
        if len(answer) <= MOST_ANSWER and answer.casefold() not in shown.casefold():
            yield kind, answer, shown


def _gaps(sentence: Sentence) -> Iterator[tuple[FormKind, tuple[int, int]]]:
    """Yield for each kind its place in the sentence, if there is exactly one."""
    gaps: tuple[tuple[FormKind, re.Pattern[str]], ...] = (("number", NUMBER), ("name", NAME))
    for kind, pattern in gaps:
        places = [match.span() for match in pattern.finditer(sentence.plain)]
        if len(places) == 1 and not any(_meets(places[0], each) for each in sentence.code):
            yield kind, places[0]
    if len(sentence.code) == 1:
        start, end = sentence.code[0]
        if TERM.fullmatch(sentence.plain[start:end]):
            yield "term", (start, end)


def _meets(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def solve(task: Task) -> Oracle:
    """Search the question, look up its sentence in the results, and read the text at the gap.
    Raises LookupError if the results lack it, or have several answers."""
    result = yield ToolUse("search", {"query": task.question})
    shown = task.question.partition("? ")[2]
    found = {
        answer
        for sentence in sentences_of(result)
        for kind, answer, without in forms(sentence)
        if (kind, without) == (task.template, shown)
    }
    if len(found) != 1:
        raise LookupError(f"{len(found)} answers to {shown[:60]!r} in what search returned")
    return found.pop()
