"""Rule checks that the instruction and the weights of a preference agree.

In: a preference and the offered tools. Out: the first fault, or nothing. Claims about tools, cost,
latency and accuracy are read from the words of the instruction.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from tutti.tasks.synthesis.domains.offer import ACCURACY, AIMS, COST, LATENCY, Preference
from tutti.tasks.synthesis.preferences.weights import STRONG, weights_reason


class Sense(StrEnum):
    """What a claim says of its subject."""

    MORE = "more"
    """It counts: of a tool, use it."""
    MOST = "most"
    """It counts more than the other aims."""
    NONE = "none"
    """It does not count."""
    LESS = "less"
    """Of a tool: avoid it."""
    AGAINST = "against"
    """The opposite is wanted: a high cost, a slow answer."""
    UNREAD = "unread"
    """A tool is named, and it is not clear what for."""


@dataclass(frozen=True)
class Claim:
    """One claim of an instruction."""

    subject: str
    """A tool, accuracy, cost or latency."""
    sense: Sense
    clause: str


def _words(text: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{text})\b", re.IGNORECASE)


AIM_WORDS: Mapping[str, tuple[re.Pattern[str], ...]] = {
    # wanted side, unwanted side, neutral
    COST: (
        _words(
            r"cheap\w*|inexpensive\w*|thrift\w*|frugal\w*|economical\w*|affordabl\w+|shoestring"
        ),
        _words(r"expensive\w*|spend\w*|dear(?:er|est)?|costly|pricey|extravagan\w+|splash out"),
        _words(r"costs?|prices?|budget|fees?|money|bills?|pay\w*|expenses?|cents?|wallet"),
    ),
    LATENCY: (
        _words(
            r"quick\w*|fast\w*|speed\w*|soon\w*|prompt(?:ly)?|swift\w*|urgent\w*|short of time"
            r"|asap|snappy|at once|immediate\w*|rapid\w*|waiting for (?:it|this|the|an|my|your)"
        ),
        _words(r"slow\w*|wait\w*|delay\w*|linger\w*|dawdl\w+"),
        _words(r"latency|time|seconds?|minutes?|hurry|rush"),
    ),
    ACCURACY: (
        _words(
            r"accura\w+|correct\w*|right(?! away| now)|careful\w*|exact\w*|precis\w+|reliab\w+"
            r"|thorough\w*|quality"
        ),
        _words(r"mistakes?|errors?|guess\w*|sloppy|sloppily|wrong"),
        _words(r"certainty"),
    ),
}
FREE = _words(
    r"do(?:es)?n't matter|do(?:es)? not matter|do(?:es)?n't care|do(?:es)? not care|no object"
    r"|no matter|never mind|regardless|irrelevant|not important|unimportant|no hurry|no rush"
    r"|(?:is|are) fine|freely|take your time|need not|even if|not (?:an issue|a concern)"
    r"|no need to|don't mind|do not mind|as long as you need|all day|no deadline"
    r"|however long|whatever (?:it|that|this)|i can wait|happy to wait|without counting"
)
FIRST = _words(
    r"first|above all|most important|matters most|before (?:anything|all)|mainly"
    r"|top priority|comes? before|most of all"
)
NOT = _words(r"not|never|no|don't|doesn't|without|avoid\w*|\w+n't")
LITTLE = _words(
    r"not|never|no|cannot|\w+n't|without|avoid\w*|less|least|low(?:er|est)?|little|few\w*|minim\w+"
    r"|sav\w+|cut\w*|keep\w* down|small\w*|short\w*|mind|watch|limit\w*|tight|spare"
)
MUCH = _words(r"more|most|high\w*|large\w*|long\w*|generous\w*|plenty|lots?|as much as possible")
AVOID = _words(
    r"not|never|avoid\w*|without|don't|do without|instead of|rather than|leave|skip"
    r"|stay away|refrain|no|spare|away from|last resort|clear of|hands off|out of it|over|\w+n't"
)
USE = _words(
    r"us(?:e|es|ing)|prefer\w*|favou?r\w*|rely|relying|lean|reach|go through|like|turn to|choose"
    r"|pick|work with|through|trust|stick to|do it with|by way of|would rather have|with"
)
CLAUSES = re.compile(
    r"[.;:!?\n]+(?=\s|$)|,|\s-\s|\band\b|\bbut\b|\bthough\b|\byet\b|\bwhile\b|\bso\b"
    r"|\b(?=even if\b|instead of\b|rather than\b|as long as it\b|over\s+`)",
    re.IGNORECASE,
)
TOOL = re.compile(r"`([^`\n]*)`|(?<![\w`])([a-z][a-z0-9]*(?:_[a-z0-9]+)+)(?![\w`])")


def read_claims(instruction: str) -> list[Claim]:
    """Return the claims of an instruction, in order. Tools are in backticks, or have an underscore
    in their name."""
    claims: list[Claim] = []
    last = Sense.UNREAD
    plain = instruction.replace("\u2019", "'")
    # Tools in backticks become one word, so that they end no clause.
    joined = re.sub(r"`[^`\n]*`", lambda tool: tool[0].replace(" ", "\x1f"), plain)
    for clause in CLAUSES.split(joined):
        text = clause.replace("\x1f", " ")
        tools = [quoted or bare for quoted, bare in TOOL.findall(text)]
        words = TOOL.sub(" ", text)
        if tools and AVOID.search(words):
            last = Sense.LESS
        elif tools and USE.search(words):
            last = Sense.MORE  # without a word for it, as in the clause before
        claims += [Claim(tool, last, text.strip()) for tool in tools]
        for aim, patterns in AIM_WORDS.items():
            sides = [bool(each.search(words)) for each in patterns]
            if any(sides):
                claims.append(Claim(aim, _sense(words, *sides), text.strip()))
    return claims


def _sense(clause: str, good: bool, bad: bool, neutral: bool) -> Sense:
    if FREE.search(clause):
        return Sense.NONE
    negated, reduced = bool(NOT.search(clause)), bool(LITTLE.search(clause))
    wrong_side = (good and negated) or (bad and not good and not reduced)
    too_much = neutral and not good and not reduced and bool(MUCH.search(clause))
    if wrong_side or too_much:
        return Sense.AGAINST
    return Sense.MOST if FIRST.search(clause) else Sense.MORE


MOST_CHARS = 600
OPPOSED: Mapping[Sense, frozenset[Sense]] = {
    Sense.MORE: frozenset({Sense.NONE, Sense.LESS}),
    Sense.MOST: frozenset({Sense.NONE, Sense.LESS}),
}


def preference_reason(preference: Preference, offered: Collection[str]) -> str:
    """Return why a preference is wrong with these offered tools, or an empty string."""
    why = weights_reason(preference.weights, offered)
    if why:
        return why
    text = preference.instruction
    if not text.strip() or len(text) > MOST_CHARS:
        return f"instruction: {len(text)} characters; must be 1 to {MOST_CHARS}"
    claims = read_claims(text)
    reasons = [_claim_reason(each, preference.weights, offered) for each in claims]
    reasons += [
        f"instruction: {one.clause!r} and {other.clause!r} contradict each other"
        for one, other in product(claims, repeat=2)
        if other.subject == one.subject and other.sense in OPPOSED.get(one.sense, ())
    ]
    subjects = {claim.subject for claim in claims} | {ACCURACY}
    reasons += [
        f"instruction: says nothing of {name}, which weighs {weight:g}"
        for name, weight in preference.weights.items()
        if abs(weight) >= STRONG and name not in subjects
    ]
    return next(filter(None, reasons), "")


def _claim_reason(claim: Claim, weights: Mapping[str, float], offered: Collection[str]) -> str:
    if claim.subject not in AIMS and claim.subject not in offered:
        return f"instruction: {claim.subject!r} is named and not offered"
    weight = weights.get(claim.subject, 0.0)
    text = f"instruction: {claim.clause!r}, and weights.{claim.subject} is {weight:g}"
    if claim.sense is Sense.UNREAD:
        return f"instruction: {claim.clause!r} does not say whether to use {claim.subject}"
    if claim.sense is Sense.AGAINST:
        return f"instruction: {claim.clause!r} asks for the opposite of what {claim.subject} weighs"
    others = [weights.get(aim, 0.0) for aim in AIMS if aim != claim.subject]
    if claim.sense is Sense.MOST and weight <= max(others):
        return f"{text}, not more than the other aims"
    holds = {
        Sense.MORE: weight > 0,
        Sense.MOST: weight > 0,
        Sense.NONE: weight == 0,
        Sense.LESS: weight < 0,
    }
    return "" if holds[claim.sense] else text
