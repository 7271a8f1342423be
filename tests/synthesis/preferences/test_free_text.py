"""Tests of the rule on instructions in free words: what it parses, and its error rates.

`KNOWN` were read while the word lists were written; `NEW` were written afterwards and not used to
change them, and their figures are those in docs/synthesis.md.
"""

from tutti.tasks.synthesis.domains.offer import Preference
from tutti.tasks.synthesis.preferences import preference_reason

TOOLS = ("calculate", "find_rate", "get_price", "search")
Case = tuple[str, dict[str, float]]
OTHERS: list[dict[str, float]] = [
    {"accuracy": 0.5, "cost": 0.5},
    {"accuracy": 0.5, "latency": 0.5},
    {"accuracy": 0.6, "search": 0.4},
    {"accuracy": 0.6, "calculate": -0.4},
    {"accuracy": 1.0},
]
"""Vectors that are wrong for an instruction that weighs other things."""
KNOWN: list[Case] = [
    (
        "I'm on a shoestring, so go for the cheapest way you can find.",
        {"accuracy": 0.5, "cost": 0.5},
    ),
    (
        "My boss is waiting for this, please answer as fast as you can.",
        {"accuracy": 0.5, "latency": 0.5},
    ),
    ("Double-check everything; I can't afford a mistake.", {"accuracy": 1.0}),
    (
        "Don't burn money on this one, and don't dawdle either.",
        {"accuracy": 0.4, "cost": 0.3, "latency": 0.3},
    ),
    (
        "Please lean on `search` and leave `calculate` out of it.",
        {"accuracy": 0.5, "search": 0.3, "calculate": -0.2},
    ),
    ("No need to hurry, but keep it inexpensive.", {"accuracy": 0.5, "cost": 0.5}),
    ("I don't mind paying more as long as it is quick.", {"accuracy": 0.5, "latency": 0.5}),
    ("Speed is everything.", {"accuracy": 0.3, "latency": 0.7}),
    ("Whatever you do, do not touch `get_price`.", {"accuracy": 0.6, "get_price": -0.4}),
    ("I'd like `find_rate` to be your first choice.", {"accuracy": 0.6, "find_rate": 0.4}),
    ("We bill by the call, so every cent counts.", {"accuracy": 0.6, "cost": 0.4}),
    ("Take as long as you need; just get it right.", {"accuracy": 1.0}),
    ("Money is no object. Make it snappy.", {"accuracy": 0.5, "latency": 0.5}),
    ("Prefer `search` over `calculate`.", {"accuracy": 0.5, "search": 0.3, "calculate": -0.2}),
    (
        "Keep expenses to a minimum and respond promptly.",
        {"accuracy": 0.4, "cost": 0.3, "latency": 0.3},
    ),
    ("It has to be exact, and the bill should stay small.", {"accuracy": 0.6, "cost": 0.4}),
    (
        "I have all day, but my wallet is nearly empty, so keep it cheap.",
        {"accuracy": 0.5, "cost": 0.5},
    ),
    (
        "Use `get_price` as often as you like and be done in seconds.",
        {"accuracy": 0.4, "get_price": 0.3, "latency": 0.3},
    ),
    ("Steer clear of `search`; time is short.", {"accuracy": 0.5, "search": -0.2, "latency": 0.3}),
    ("Accuracy trumps cost, but do keep costs in check.", {"accuracy": 0.7, "cost": 0.3}),
]
NEW: list[Case] = [
    (
        "Our department's funds are nearly gone, so please find the least costly route.",
        {"accuracy": 0.5, "cost": 0.5},
    ),
    (
        "The train leaves in five minutes and I need the result before that.",
        {"accuracy": 0.5, "latency": 0.5},
    ),
    ("Being wrong here would be a disaster, so verify each step.", {"accuracy": 1.0}),
    (
        "`search` tends to return junk; I'd sooner you didn't call it.",
        {"accuracy": 0.6, "search": -0.4},
    ),
    ("Please make good use of `calculate`.", {"accuracy": 0.6, "calculate": 0.4}),
    (
        "I want this settled as soon as possible, and it shouldn't cost the earth.",
        {"accuracy": 0.4, "cost": 0.3, "latency": 0.3},
    ),
    ("Price isn't an issue; reliability is.", {"accuracy": 1.0}),
    ("Economise wherever you can.", {"accuracy": 0.5, "cost": 0.5}),
    ("Kindly reply without delay.", {"accuracy": 0.5, "latency": 0.5}),
    ("Nothing fancy: low price, decent quality.", {"accuracy": 0.5, "cost": 0.5}),
    (
        "`find_rate` is the one I trust most; `get_price` I don't trust at all.",
        {"accuracy": 0.4, "find_rate": 0.4, "get_price": -0.2},
    ),
    ("A slow answer is useless to me.", {"accuracy": 0.5, "latency": 0.5}),
    (
        "You may take an hour for all I care, but not a dollar more than needed.",
        {"accuracy": 0.5, "cost": 0.5},
    ),
    ("If two ways are equally good, take the faster one.", {"accuracy": 0.6, "latency": 0.4}),
    (
        "Be frugal with calls that cost money, and use `search` for lookups.",
        {"accuracy": 0.4, "cost": 0.3, "search": 0.3},
    ),
    (
        "Try to manage without `get_price`, which is down half the time.",
        {"accuracy": 0.6, "get_price": -0.4},
    ),
    (
        "I value correctness over everything, with cost a distant second.",
        {"accuracy": 0.8, "cost": 0.2},
    ),
    ("Time is money, so be brisk.", {"accuracy": 0.5, "latency": 0.5}),
    ("Get me the cheapest correct answer, whenever it comes.", {"accuracy": 0.5, "cost": 0.5}),
    ("Please stay within a few cents.", {"accuracy": 0.5, "cost": 0.5}),
]


def refused(cases: list[Case]) -> int:
    """Return the number of correct pairs that the rule refuses."""
    pairs = [Preference(instruction=text, weights=weights) for text, weights in cases]
    return sum(bool(preference_reason(each, TOOLS)) for each in pairs)


def passed(cases: list[Case]) -> tuple[int, int]:
    """Return the number of wrong pairs that the rule accepts, and the number of wrong pairs."""
    pairs = [
        Preference(instruction=text, weights=wrong)
        for text, weights in cases
        for wrong in OTHERS
        if wrong.keys() != weights.keys()
    ]
    return sum(not preference_reason(each, TOOLS) for each in pairs), len(pairs)


def test_what_it_knows_is_read_right() -> None:
    assert refused(KNOWN) == 0 and passed(KNOWN) == (0, 88)


def test_of_new_words_it_refuses_rather_than_guesses() -> None:
    """The rule's errors are on the safe side: a refused correct pair is returned to the teacher."""
    assert refused(NEW) <= 9
    wrong, of = passed(NEW)
    assert wrong <= 3 and of == 84


def test_a_typographic_apostrophe_is_one() -> None:
    text = "I don\u2019t care about speed, but mind the cost."
    assert refused([(text, {"accuracy": 0.5, "cost": 0.5})]) == 0
