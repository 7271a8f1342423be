"""RULER's tasks that need no other texts. After Hsieh et al. 2024 (arXiv 2404.06654), with tutti's
own wording, noise and words.

The answer is drawn first, so that it is the same at every size of the context.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import pi
from random import Random
from string import ascii_lowercase, ascii_uppercase

NOISE = "Rain falls on the roof. A train leaves at noon. The bread is warm. Nobody is in a hurry."
HOPS = 4  # assignments from one variable to the next, as published
COMMON, EXAMPLE_RARE = 10, 30  # words that cwe asks for; other words of its worked example
FEWER_BELOW = 4_096  # length below which cwe's words occur less often, as published
CODED_LETTERS = 6
LENGTH_A_CODED_WORD = 50  # fwe: so many tokens of length give one word of its vocabulary
MIN_VOCABULARY = 10
ZETA_2 = pi**2 / 6  # the sum of 1/k^2: makes the shares of fwe's words sum to 1


# No adjective ends with another and no noun begins with another, so that no pair contains another
# pair: a response that names a wrong pair must not be counted for a right one.
ADJECTIVES = tuple(
    """
    amber ancient arid bitter blank blunt brass brave breezy brief brisk broad bronze calm candid
    careful chilly civic clever coarse copper cosy crisp curly damp dapper daring deep dense distant
    dizzy double dusty eager earnest elegant empty famous fancy fearless fierce final firm flat
    fluffy foggy formal fragile frank frosty frozen gentle giant glad glossy golden graceful grand
    grateful gray greedy handsome hardy harsh hasty heavy hidden hollow honest humble hungry idle
    jagged jolly joyful keen kind large lavish lazy lively local lone loud loyal lucky magic mellow
    merry mighty mild modest muddy narrow neat nimble noble noisy odd orange patient plain playful
    polite proud purple quaint quick quiet rapid rare rigid ripe robust rough round royal rustic
    salty serene sharp shiny shy silent silver simple sincere sleepy slender smooth sober solid
    spicy square steady steep stern sticky stormy strict sturdy subtle sudden sunny superb sweet
    swift tame tender thick thrifty timid tiny tranquil urban vague valiant velvet vivid warm
    wealthy weary whole wicked windy wise witty wooden worthy yellow young zealous
    """.split()
)
NOUNS = tuple(
    """
    acorn airport album almond anchor apron arrow atlas attic badge bakery balcony ballad banner
    barley basin basket beacon beetle bicycle blanket bottle bracelet branch bridge bucket buffalo
    button cabin cactus camera candle canoe canyon carpet castle cavern ceiling cellar chapel cherry
    chimney circus clarinet cliff clover coconut comet compass cottage crater cricket crystal
    curtain dagger dentist desert diamond dolphin donkey dragon drawer eagle elbow emerald engine
    envelope fabric falcon farmer feather fiddle finger flagpole flute forest fossil fountain galaxy
    garden garlic gazelle ginger giraffe glacier glove goblet guitar hammer hammock harbor harvest
    helmet hornet island ivory jacket jasmine jewel journal jungle kettle kitchen ladder lagoon
    lantern lemon library lizard lobster locket magnet mailbox mango marble meadow mirror mitten
    monkey mosaic mountain muffin museum napkin necklace notebook ocean olive orchard otter oyster
    paddle palace panther parrot pebble pencil pepper piano pigeon pillow planet pocket pumpkin
    puzzle quarry rabbit raccoon railway raven ribbon river rocket saddle sailor sandal satchel
    saucer scooter shelter shovel sparrow spider spoon squirrel stadium statue sunrise swallow
    tablet teapot temple thimble thunder ticket tiger tomato tractor trumpet tunnel turtle umbrella
    valley violin volcano waffle wagon walnut walrus whistle window workshop zebra zipper
    """.split()
)
PAIRS = len(ADJECTIVES) * len(NOUNS)


def draw_pairs(random: Random, count: int) -> list[str]:
    """`count` different pairs, in the order drawn. Raises ValueError for more than `PAIRS`."""
    places = (divmod(place, len(NOUNS)) for place in random.sample(range(PAIRS), count))
    return [f"{ADJECTIVES[first]}-{NOUNS[second]}" for first, second in places]


def draw_pair(random: Random) -> str:
    """One pair."""
    return f"{random.choice(ADJECTIVES)}-{random.choice(NOUNS)}"


@dataclass(frozen=True)
class Question:
    """One prompt and the content of a right response."""

    text: str
    references: tuple[str, ...]


Make = Callable[[Random, int, int], Question]
"""From random numbers, the size of the context (in the task's own unit: lines or words) and the
whole length that the item may have."""


@dataclass(frozen=True)
class RulerTask:
    """A task of RULER."""

    make: Make
    room: int
    """Tokens that the publisher leaves for the response; the prompt and they fit in the length."""
    smallest: int
    largest: int = 10**7
    """The largest size; the default is more than any length needs."""


def _other_needles(random: Random, lines: int, asked: Sequence[str]) -> list[str]:
    """Return sentences about keys that are not asked for. A key may occur twice, as published."""
    found: list[str] = []
    while len(found) < lines:
        key = draw_pair(random)
        if key not in asked:
            found.append(_needle(key, _number(random)))
    return found


def _number(random: Random) -> str:
    return str(random.randint(1_000_000, 9_999_999))


def _needle(key: str, value: str) -> str:
    return f"One of the secret numbers for {key} is: {value}."


def _niah(
    random: Random, size: int, length: int, *, keys: int = 1, values: int = 1, noise: bool = True
) -> Question:
    """A question about needles in a haystack of `size` lines, which asks for all their keys."""
    asked = draw_pairs(random, keys)
    numbers = [str(one) for one in random.sample(range(1_000_000, 10_000_000), keys * values)]
    needles = [_needle(asked[place // values], one) for place, one in enumerate(numbers)]
    random.shuffle(needles)
    hay = [NOISE] * size if noise else _other_needles(random, size, asked)
    return Question(
        "Secret numbers are hidden in the following text. Remember them: a question about them "
        f"follows the text.\n\n{_hidden(random, needles, hay)}\n\n"
        f"Which secret numbers does the text give for {_listed(asked)}? Name all of them.",
        tuple(numbers),
    )


def _hidden(random: Random, needles: Sequence[str], hay: Sequence[str]) -> str:
    places = sorted(random.sample(range(len(hay)), len(needles)))
    at = dict(zip(places, needles, strict=True))
    return "\n".join(
        f"{at[place]}\n{line}" if place in at else line for place, line in enumerate(hay)
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _distinct(random: Random, letters: str, each: int, count: int) -> list[str]:
    """`count` different strings of `each` letters. With equal lengths, none contains another."""
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(random.choices(letters, k=each))] = None
    return list(found)


def _variable_tracking(random: Random, size: int, length: int) -> Question:
    """A chain of `HOPS` assignments in noise, after a worked example with other variables."""
    names = _distinct(random, ascii_uppercase, 5, 2 * (HOPS + 1))
    first, second = (str(one) for one in random.sample(range(10_000, 100_000), 2))
    example, tracked = names[: HOPS + 1], names[HOPS + 1 :]
    shown = _tracking(random, example, first, HOPS + 1)
    answer = f"{shown}\nAnswer: {' '.join(example)}"
    return Question(f"{answer}\n\n{_tracking(random, tracked, second, size)}", tuple(tracked))


def _tracking(random: Random, names: Sequence[str], value: str, size: int) -> str:
    sources = [value, *(f"VAR {name}" for name in names[:-1])]
    chain = [f"VAR {name} = {source}" for name, source in zip(names, sources, strict=True)]
    return (
        "Variables are assigned in the following text. Keep track of them.\n\n"
        f"{_hidden(random, chain, [NOISE] * size)}\n\n"
        f"Question: Which variables have the value {value}, directly or through other variables?"
    )


def _common_words(random: Random, size: int, length: int) -> Question:
    """A question about ten frequent words among `size` different words, after a worked example."""
    few = length < FEWER_BELOW
    asked, shown = draw_pairs(random, COMMON), draw_pairs(random, COMMON + EXAMPLE_RARE)
    often, seldom = (6, 1) if few else (30, 3)
    example = _list_of_words(random, shown, *((3, 1) if few else (10, 3)))
    # Of those drawn some may be the ones asked for, so ten more are drawn than needed.
    drawn = draw_pairs(random, min(PAIRS, size))
    rare = [word for word in drawn if word not in asked][: size - COMMON]
    answer = " ".join(f"{place}. {word}" for place, word in enumerate(shown[:COMMON], 1))
    question = _list_of_words(random, [*asked, *rare], often, seldom)
    return Question(f"{example}\nAnswer: {answer}\n\n{question}", tuple(asked))


def _list_of_words(random: Random, words: Sequence[str], often: int, seldom: int) -> str:
    repeated = list(words[:COMMON]) * often + list(words[COMMON:]) * seldom
    random.shuffle(repeated)
    numbered = " ".join(f"{place}. {word}" for place, word in enumerate(repeated, 1))
    return (
        "Some words occur more often than others in the following numbered list.\n\n"
        f"{numbered}\n\nQuestion: Which {COMMON} words occur most often in the list?"
    )


def _frequent_words(random: Random, size: int, length: int) -> Question:
    """Return about `size` coded words: that of rank k occurs size / (zeta(2) k^2) times, rounded
    down. The most frequent is a row of dots, which the question excludes."""
    count = max(MIN_VOCABULARY, length // LENGTH_A_CODED_WORD)
    words = _distinct(random, ascii_lowercase, CODED_LETTERS, count)
    ranked = ["....", *words]
    counts = [int(size / (ZETA_2 * rank**2)) for rank in range(1, len(ranked) + 1)]
    coded = [word for word, times in zip(ranked, counts, strict=True) for _ in range(times)]
    random.shuffle(coded)
    return Question(
        "The following text consists of coded words. Count how often each of them occurs.\n\n"
        f"{' '.join(coded)}\n\nQuestion: Which three words occur most often? The dots '....' are "
        "no word. Answer with the words only.",
        tuple(words[:3]),
    )


TASKS: dict[str, RulerTask] = {
    "niah_single": RulerTask(_niah, room=128, smallest=4),
    "niah_multikey": RulerTask(partial(_niah, noise=False), room=128, smallest=4),
    "niah_multivalue": RulerTask(partial(_niah, values=4), room=128, smallest=4),
    "niah_multiquery": RulerTask(partial(_niah, keys=4), room=128, smallest=4),
    "vt": RulerTask(_variable_tracking, room=30, smallest=HOPS + 1),
    "cwe": RulerTask(_common_words, room=120, smallest=2 * COMMON, largest=PAIRS - COMMON),
    # 60 words: the fourth and the fifth rank, the last asked for and the next, occur 2 and 1 times.
    "fwe": RulerTask(_frequent_words, room=50, smallest=60),
}
