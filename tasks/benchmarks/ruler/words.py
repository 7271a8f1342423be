"""The words of generated prompts: `ADJECTIVES` x `NOUNS`, as ``amber-acorn``.

No adjective ends with another and no noun begins with another, so that no pair contains another
pair: a response that names a wrong pair must not be counted for a right one.
"""

from random import Random

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
"""How many pairs there are."""


def draw_pairs(random: Random, count: int) -> list[str]:
    """`count` different pairs, in the order drawn. Raises ValueError for more than `PAIRS`."""
    places = (divmod(place, len(NOUNS)) for place in random.sample(range(PAIRS), count))
    return [f"{ADJECTIVES[first]}-{NOUNS[second]}" for first, second in places]


def draw_pair(random: Random) -> str:
    """One pair."""
    return f"{random.choice(ADJECTIVES)}-{random.choice(NOUNS)}"
