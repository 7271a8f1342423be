"""Whether an instruction and a vector say the same, by rule.

In: a preference and the tools that are offered. Out: the first thing wrong with it, or nothing.
Refused are: weights out of bounds or with a wrong sign, tools that are not offered, claims that the
weights do not bear out, two claims that contradict each other, and strong weights that the
instruction does not speak of.
"""

from collections.abc import Collection, Mapping, Sequence

from tutti.tasks.synthesis.domains.offer import ACCURACY, AIMS, Preference
from tutti.tasks.synthesis.preferences.claims import Claim, Sense, read_claims
from tutti.tasks.synthesis.preferences.weights import STRONG, weights_reason

MOST_CHARS = 600
OPPOSED: Mapping[Sense, frozenset[Sense]] = {
    Sense.MORE: frozenset({Sense.NONE, Sense.LESS}),
    Sense.MOST: frozenset({Sense.NONE, Sense.LESS}),
}


def preference_reason(preference: Preference, offered: Collection[str]) -> str:
    """Why a preference is wrong where these tools are offered; empty if it is right."""
    why = weights_reason(preference.weights, offered)
    if why:
        return why
    text = preference.instruction
    if not text.strip() or len(text) > MOST_CHARS:
        return f"instruction: {len(text)} characters; must be 1 to {MOST_CHARS}"
    claims = read_claims(text)
    reasons = [_claim_reason(each, preference.weights, offered) for each in claims]
    reasons.append(_contradiction(claims))
    reasons.append(_unsaid(claims, preference.weights))
    return next(filter(None, reasons), "")


def _claim_reason(claim: Claim, weights: Mapping[str, float], offered: Collection[str]) -> str:
    if claim.subject not in AIMS and claim.subject not in offered:
        return f"instruction: {claim.subject!r} is named and not offered"
    weight = weights.get(claim.subject, 0.0)
    said = f"instruction: {claim.clause!r}, and weights.{claim.subject} is {weight:g}"
    if claim.sense is Sense.UNREAD:
        return f"instruction: {claim.clause!r} does not say whether to use {claim.subject}"
    if claim.sense is Sense.AGAINST:
        return f"instruction: {claim.clause!r} asks for the opposite of what {claim.subject} weighs"
    if claim.sense is Sense.MOST and weight <= _largest_other(claim.subject, weights):
        return f"{said}, not more than the other aims"
    holds = {
        Sense.MORE: weight > 0,
        Sense.MOST: weight > 0,
        Sense.NONE: weight == 0,
        Sense.LESS: weight < 0,
    }
    return "" if holds[claim.sense] else said


def _largest_other(aim: str, weights: Mapping[str, float]) -> float:
    return max(weights.get(other, 0.0) for other in AIMS if other != aim)


def _contradiction(claims: Sequence[Claim]) -> str:
    for one in claims:
        for other in claims:
            if other.subject == one.subject and other.sense in OPPOSED.get(one.sense, ()):
                return f"instruction: {one.clause!r} and {other.clause!r} contradict each other"
    return ""


def _unsaid(claims: Sequence[Claim], weights: Mapping[str, float]) -> str:
    said = {claim.subject for claim in claims}
    for name, weight in weights.items():
        if abs(weight) >= STRONG and name not in said and name != ACCURACY:
            return f"instruction: says nothing of {name}, which weighs {weight:g}"
    return ""
