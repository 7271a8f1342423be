"""Copies of questions, and independent questions of the same templates, for tests of the guard."""

import re
from collections.abc import Callable
from itertools import pairwise
from random import Random

WORDS = "really very indeed kindly now quite maybe simply actually just lovely often".split()
PRINTED_ALIKE = str.maketrans(
    "aceopxyiATMHKB",
    "\u0430\u0441\u0435\u043e\u0440\u0445\u0443\u0456\u0410\u0422\u041c\u041d\u041a\u0412",
)
NAMES = "Ann Bob Carla Dmitri Elena Farid Grace Hiro Ines Jamal Kofi Lena Marta Nadia Omar".split()
SMALL = "two three four five six seven eight nine ten eleven twelve".split()
STARTS = frozenset(
    "The She He How If It They In At On What When After A For Each Every There His Her Today Then "
    "One This That All By From To Since Of And But Because So My I Some Last During While Their "
    "Its Is As Given Out Half Two Three Four Five Six Seven Eight Nine Ten".split()
)
NUMBER = re.compile(r"\d[\d,]*\.?\d*(?<![.,])")


def with_a_word(question: str, rng: Random) -> str:
    """Return the question with one word inserted."""
    words = question.split()
    words.insert(rng.randrange(1, len(words)), rng.choice(WORDS))
    return " ".join(words)


KINDS: dict[str, Callable[[str, Random], str]] = {
    "verbatim": lambda q, _: q,
    "prefixed": lambda q, _: f"Please tell me: {q}",
    "prefixed, longer": lambda q, _: f"Here is problem 7 of 20, by Ann. Think hard. {q}",
    "suffixed": lambda q, _: f"{q} Give only the answer, and think step by step.",
    "one word inserted": with_a_word,
    "upper case": lambda q, _: q.upper(),
    "lower case": lambda q, _: q.lower(),
    "title case": lambda q, _: q.title(),
    "double spaces": lambda q, _: "  ".join(q.split()),
    "a line a word": lambda q, _: "\n".join(q.split()),
    "no spaces": lambda q, _: "".join(q.split()),
    "spaced letters": lambda q, _: " ".join(q.replace(" ", "")),
    "zero-width spaces": lambda q, _: "\u200b".join(q),
    "homoglyphs": lambda q, _: q.translate(PRINTED_ALIKE),
    "inserted, prefixed, homoglyphs": lambda q, rng: (
        f"Please tell me: {with_a_word(q, rng)}".translate(PRINTED_ALIKE)
    ),
}


def sibling(question: str, rng: Random) -> str:
    """Return a question of the same template with other numbers and names."""

    def other(found: re.Match[str]) -> str:
        text = found.group().replace(",", "")
        if "." in text:
            return str(float(text) + rng.randint(1, 9))
        return str(int(text) + rng.choice((1, 2, 3, 5, 7, 10)))

    made = NUMBER.sub(other, question)
    made = re.sub(
        rf"\b({'|'.join(SMALL)})\b",
        lambda found: rng.choice([each for each in SMALL if each != found.group().lower()]),
        made,
        flags=re.IGNORECASE,
    )
    for name in {*re.findall(r"\b[A-Z][a-z]+\b", made)} - STARTS:
        made = re.sub(rf"\b{name}\b", rng.choice(NAMES), made)
    return made


def templated(rng: Random) -> dict[str, list[str]]:
    """Return generated questions of one template each, all different, in a random order."""
    functions = "json.dumps os.path.join shutil.copytree re.sub io.open csv.reader math.gcd".split()
    cities = "Paris Berlin Oslo Rome Madrid Tokyo Cairo Lima Delhi Accra".split()
    things = "an array,a list of tuples,a matrix,a nested list,a linked list,a binary tree".split(
        ","
    )
    measures = "sum mean median product maximum minimum range variance mode".split()
    shapes = "triangle square rectangle trapezoid rhombus".split()
    players, told = NAMES[:4], "{} has the {} ball"
    puzzles = [
        "Players hold a ball each: {}. As the game goes on, pairs trade. First, {} and {} swap "
        "their balls. Then, {} and {} swap their balls. At the end of the game, {} has the".format(
            ", ".join(map(told.format, players, rng.sample("red blue pink black".split(), 4))),
            *rng.sample(players, 2),
            *rng.sample(players, 2),
            rng.choice(players),
        )
        for _ in range(120)
    ]
    brackets = [
        "Complete the sequence, so that all brackets are closed properly. Input: "
        + " ".join(rng.choice("([{<>}])") for _ in range(rng.randint(4, 30)))
        for _ in range(120)
    ]
    made = {
        "functions": [
            f"Which parameter of the function `{name}` comes {place}?"
            for name in functions
            for place in ("first", "last", "second")
        ],
        "weather": [
            f"Find the {what} in {city} on {month} {day} and give it in {unit}."
            for what in ("temperature", "humidity", "wind speed")
            for city in cities
            for month in ("May", "June")
            for day in range(3, 29, 5)
            for unit in ("Celsius", "Fahrenheit")
        ],
        "shapes": [
            f"Calculate the {what} of a {shape} with a base of {a} units and a height of {b} units."
            for what in ("area", "perimeter")
            for shape in shapes
            for a in range(2, 26, 5)
            for b in range(3, 31, 6)
        ],
        "programs": [
            f"Write a python function to find the {measure} of {thing}."
            for measure in measures
            for thing in things
        ],
        "apples": [
            f"{one} has {a} apples and gives {b} of them to {other}. How many apples are left?"
            for one, other in pairwise(NAMES)
            for a in range(20, 50, 4)
            for b in range(2, 16, 3)
        ],
        "sums": [
            f"What is {a} {sign} {b} {other} {c}?"
            for a in range(2, 60, 9)
            for b in range(3, 60, 8)
            for c in (4, 7)
            for sign in "+-*"
            for other in "+-"
        ],
        "puzzles": list(dict.fromkeys(puzzles)),
        "brackets": list(dict.fromkeys(brackets)),
        "booleans": [
            f"{first}{one} {word} {second} {other} {last} is"
            for first in ("", "not ", "not not ")
            for one in ("True", "( not False )", "( not True )", "False")
            for word in ("and", "or")
            for second in ("( True", "not ( False", "( False", "( not ( True )")
            for other in ("or", "and not")
            for last in ("False )", "True )")
        ],
    }
    for questions in made.values():
        rng.shuffle(questions)
    return made
