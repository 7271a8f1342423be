"""Invented people for the programs over databases, and invented names."""

from collections.abc import Iterator, Mapping
from random import Random

FIRST = (
    "Agnes Alba Anselm Arlo Astrid Beatrix Benedikt Bram Bridget Callum Carys Cecily Clement "
    "Cosima Dagny Damian Delphine Dorian Edith Eilidh Elias Elodie Emrys Esther Fabian Felicity "
    "Fergus Freya Gareth Gemma Giles Greta Gwen Hamish Hedda Hollis Hugo Imogen Ingrid Ivo Jasper "
    "Jonas Juniper Kasper Keira Lachlan Leonie Linus Lorna Magnus Maren Marius Maude Nadia Nell "
    "Niamh Odette Orla Oscar Otis Petra Phoebe Quentin Ramona Roland Rosalind Rufus Saskia Silas "
    "Sigrid Sybil Tabitha Tamsin Theodore Tilda Tobias Ursula Vera Wilf Winifred"
).split()
LAST = (
    "Abernathy Alder Ashdown Bainbridge Barlow Beckett Birch Blackwood Bramwell Burgess Calloway "
    "Carver Chisholm Colbeck Copeland Crane Dalby Darrow Denholm Drake Dunmore Easton Ellery "
    "Fairfax Farrow Fenwick Finch Forsyth Gable Garrick Gillespie Goodwin Greaves Hadley Halloran "
    "Hargreave Harlow Hathaway Hawthorne Heath Holloway Huxley Inglis Jessop Keating Kendrick "
    "Kirkland Lambert Langley Larkin Lockwood Lovell Mallory Marlow Merrick Milburn Norwood Oakes "
    "Ormond Padgett Pemberton Penrose Prescott Quill Radcliffe Ramsey Redfern Rowe Sawyer Selby "
    "Sherwood Stanton Sutcliffe Talbot Thackeray Thorne Underhill Vance Wakefield Whitlock Wren "
    "Yardley"
).split()
STREETS = (
    "Acorn Lane,Alder Road,Bakers Row,Beacon Street,Bluebell Close,Brewery Yard,Bridle Path,"
    "Canal Street,Castle Mews,Chapel Hill,Cherry Tree Walk,Coopers Lane,Copse Road,Dovecote Street,"
    "Eastgate,Fern Avenue,Ferry Road,Foundry Street,Glebe Road,Harbour View,Hazel Grove,"
    "Heron Way,Hillcrest Drive,Juniper Court,Kiln Lane,Larch Avenue,Lighthouse Road,Linden Street,"
    "Mill Lane,Old Quay,Orchard Street,Paddock Way,Quarry Road,Ropewalk,Rowan Drive,Saddlers Court,"
    "Sandpiper Way,Station Parade,Tannery Street,Vineyard Road,Weavers Row,Willow Bank"
).split(",")
CITIES = (
    "Ashbourne,Brackley,Calder Falls,Corran,Dunhaven,Eastmere,Fallowfield,Glenmoor,Hartwell,"
    "Kingsferry,Larkspur,Marshgate,Northbridge,Oakhurst,Pinewater,Queensport,Ravensbrook,Saltmarsh,"
    "Stonebridge,Thornbury,Upper Lyle,Westholm,Whitcombe,Yarrow Bay"
).split(",")


Person = Mapping[str, str]
"""``first_name``, ``last_name``, ``email``, ``phone``, ``birth_date``, ``street``, ``city`` and
``zip``. No two people share an email, a phone number, or a name with a zip code or birth date."""


def draw_address(rng: Random) -> dict[str, str]:
    """``street``, ``city`` and ``zip``, a code of five digits."""
    street = f"{rng.randint(1, 240)} {rng.choice(STREETS)}"
    return {"street": street, "city": rng.choice(CITIES), "zip": str(rng.randint(10_000, 99_999))}


def people(rng: Random, count: int, namesakes: int) -> list[Person]:
    """Draw `count` people; of ten, about `namesakes` have the full name of an earlier one."""
    names: list[tuple[str, str]] = []
    seen: set[tuple[str, ...]] = set()
    found: list[Person] = []
    codes = numbers(rng)
    while len(found) < count:
        shares = bool(names) and rng.randrange(10) < namesakes
        first, last = rng.choice(names) if shares else (rng.choice(FIRST), rng.choice(LAST))
        address = draw_address(rng)
        birth = f"{rng.randint(1945, 2004)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        told = {(first, last, address["zip"]), (first, last, birth)}
        if told & seen or (not shares and (first, last) in names):
            continue
        code = next(codes)
        email = f"{first}.{last}{code[:3]}@mail.example".lower()
        phone = f"555-{code[:3]}-{next(codes)[:4]}"
        if {(email,), (phone,)} & seen:
            continue
        seen |= {(email,), (phone,), *told}
        names.append((first, last))
        person = {"first_name": first, "last_name": last, "email": email, "phone": phone}
        found.append({**person, "birth_date": birth, **address})
    return found


def numbers(rng: Random) -> Iterator[str]:
    """Yield distinct numbers of five digits, for ids. Raises ValueError after 90,000 of them."""
    drawn: set[int] = set()
    while len(drawn) < 90_000:
        number = rng.randint(10_000, 99_999)
        if number not in drawn:
            drawn.add(number)
            yield str(number)
    raise ValueError("people.py: all ids of five digits are drawn; ask for fewer records")


ONSETS = "b br d dr f fl g gr h k kl l m n p pr r s st t tr v z".split()
VOWELS = "a e i o u ae ou".split()
CODAS = "l m n r s k rn lm st nd v th".split()


class NameMaker:
    """Gives names of which none is part of another, so that a text has one only where it is
    meant."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._taken: list[str] = []

    def name(self, syllables: int = 2) -> str:
        """Return a new capitalised name."""
        while True:
            parts = [self._rng.choice(ONSETS) + self._rng.choice(VOWELS) for _ in range(syllables)]
            name = "".join(parts) + self._rng.choice(CODAS)
            if len(name) >= 5 and not any(name in old or old in name for old in self._taken):
                self._taken.append(name)
                return name.capitalize()
