"""Gate: the question asks about its source, and reads well alone.

It rejects wrong quotations, debris of markup, unpaired brackets, references to other sentences,
entries of lists or logs, and numbers that the scorer reads differently.
"""

import re
from collections.abc import Iterator

from tutti.tasks.scoring import numbers
from tutti.tasks.synthesis.documents.base.from_passages import ASKED, GAP
from tutti.tasks.synthesis.documents.base.question import DocumentQuestion, quotation, source_reason
from tutti.tasks.synthesis.documents.gates.example import PASSAGES, maker, question, who
from tutti.tasks.synthesis.documents.gates.gate import (
    QuestionContext,
    QuestionExamples,
    QuestionGate,
)
from tutti.tasks.task_sets import Task, verdict

DEBRIS = re.compile(r"[|`{}\\]|\*\*|__|\]\(|</?\w+>|https?:|\.\.\.|…|\[[\w\d]{1,3}\]")
BEGINS = re.compile(
    r"(?:it|its|this|these|that|those|they|their|them|he|she|his|her|both|each of (?:them|these)|"
    r"such|so|but|and|or|nor|then|there|here|also|likewise|otherwise|else|instead|however|thus|"
    r"therefore|hence|the (?:same|other|others|former|latter|first|second|last|rest)|neither|"
    r"either|as (?:above|before|there)|in both|for that|with (?:it|them|this|that)|after that|"
    r"before that|one of them|all of them|most of them|none of them|another|others|some|"
    r"one|another one|that is|which|who|above|below|beside (?:it|them|that))\b",
    re.I,
)
REFERS = re.compile(
    r"\b(?:this|these|those|the (?:two|three|former|latter|above)|above|below|is then)\b", re.I
)
VAGUE = re.compile(
    r"\b(?:the|this|these|given|above) (?:\w+ )?(?:passages?|documents?|texts?|excerpts?|sections?|"
    r"authors?|quotes?|quotations?)\b",
    re.I,
)
LABEL = re.compile(
    r"(?:\S+ ){0,2}\S+: |\d{4}-\d\d-\d\d|.*\d{4}-\d\d-\d\d:|.*: [^:]*\d[^:]* [^:]*\d[^:]*$"
)
"""A label before a colon, the date of an entry, or figures after a colon: no sentence."""
TWO = re.compile(r"(?<!e\.g)(?<!i\.e)(?<! etc)(?<! vs)(?<! cf)(?<! al)[.] [a-z]")
"""The end of a sentence before a small letter."""
LEAST_DEFINING = 7
PAIRS = (("(", ")"), ("[", "]"), ("“", "”"))


def _faults(task: Task, context: QuestionContext) -> Iterator[str]:
    quote = task.slots["quote"]
    asked = DocumentQuestion(
        question=task.question, answer=task.answer, document=task.key, quote=quote
    )
    yield source_reason(asked, context.corpus.passage(task.key))
    shown = shown_of(task)
    found = DEBRIS.search(shown.replace(GAP, ""))
    if found is not None:
        yield f"question: {found[0]!r} is markup"
    for left, right in PAIRS:
        if shown.count(left) != shown.count(right):
            yield f"question: {left!r} and {right!r} are not as many"
    if shown.count('"') % 2 or len(re.findall(r"(?<!\w)'|'(?!\w|s\b)", shown)) % 2:
        yield "question: a quotation mark is open"
    if task.template in ASKED:
        yield from _of_program(task, shown)
    elif not task.question.rstrip().endswith("?"):
        yield "question: it does not end with a question mark"
    elif VAGUE.search(task.question) is not None:
        yield "question: it speaks of its passage, which nobody sees who is asked"


def _of_program(task: Task, shown: str) -> Iterator[str]:
    sentence = quotation(task) if task.template == "definition" else shown
    first = BEGINS.match(sentence)
    if first is not None:
        yield f"question: its sentence begins with {first[0]!r}, which another explains"
    if LABEL.match(sentence) or TWO.search(sentence):
        yield "question: it is an entry of a list or a log, or more than one sentence"
    refers = REFERS.search(sentence)
    if refers is not None:
        yield f"question: its sentence says {refers[0]!r}, which another explains"
    begins = sentence.removeprefix(GAP)[:1]
    if begins == sentence[:1] and not (begins.isupper() or begins.isdigit() or begins == '"'):
        yield "question: its sentence has no beginning"
    if task.template == "number" and len(numbers(task.answer)) != 1:
        yield f"answer: {task.answer!r} is not read as one number"
    if task.template == "definition" and len(shown.split()) < LEAST_DEFINING:
        yield "question: the description is too short to tell anything"
    if task.template == "definition" and BEGINS.match(task.answer) is not None:
        yield f"answer: {task.answer!r} is no term"


def shown_of(task: Task) -> str:
    """The part of a question that is from the documents; the whole question for a teacher's."""
    return task.question.partition("? ")[2] if task.template in ASKED else task.question


SHOWN = 'Which number belongs in the gap in "The pump"? '
PARSES = QuestionGate(
    "parses",
    "Its source says it word for word, and the question reads well without its passage.",
    lambda task, context: verdict(next(filter(None, _faults(task, context)), "")),
    QuestionExamples(
        PASSAGES,
        good=(question(), who(), maker()),
        bad=(  # a wrong quotation, markup, an open bracket, "it", "these", "the passage"
            question(quote="The pump runs for 35 minutes after every rinse."),
            question(answer="36"),
            question(document="nowhere.md#0"),
            question(question=f"{SHOWN}The pump | runs for ____ minutes after each rinse."),
            question(question=f"{SHOWN}The pump (runs for ____ minutes after each rinse."),
            question(question=f"{SHOWN}It runs for ____ minutes after each rinse."),
            question(question=f"{SHOWN}The pump runs for ____ minutes after these."),
            question(question=f"{SHOWN}2026-11-21, pump of ____ minutes after each rinse."),
            question(question=f"{SHOWN}The pump: it runs for ____ minutes."),
            question(question=f"{SHOWN}The pump runs. it runs for ____ minutes or so."),
            question(question=f"{SHOWN}the pump runs for ____ minutes after each rinse."),
            maker(question="Which company made the valve in the passage?"),
            maker(question="Name the company"),
        ),
    ),
)
