r"""Units of measurement at the end of an answer: "5 cm", ``5\,\mathrm{cm}^2``, "5 metres".

Only where two texts both name a known unit, these decide: 5 m is not 5 cm. Nothing is converted.
"""

import re

_NAMES = {
    "mm": "millimeters? millimetres?",
    "cm": "centimeters? centimetres?",
    "dm": "decimeters? decimetres?",
    "m": "meters? metres?",
    "km": "kilometers? kilometres?",
    "in": "inch inches",
    "ft": "foot feet",
    "yd": "yards?",
    "mi": "miles?",
    "mg": "milligrams?",
    "g": "grams?",
    "kg": "kilograms?",
    "lb": "lbs pounds?",
    "oz": "ounces?",
    "ms": "milliseconds?",
    "s": "sec seconds?",
    "min": "minutes?",
    "h": "hr hrs hours?",
    "d": "days?",
    "wk": "weeks?",
    "yr": "years?",
    "ml": "mL milliliters? millilitres?",
    "l": "L liters? litres?",
}
_FORMS = {unit: f"{unit} {names}".replace(" ", "|") for unit, names in _NAMES.items()}
_UNITS = re.compile(
    r"[0-9}]\)?(?:\s|~|\\[ ,;!]|\\quad)*\$?(?:\\(?:text|mathrm|mbox|textrm|rm)\s*\{\s*)?"
    rf"(?:\b|(?<=[0-9]))(?P<name>{'|'.join(_FORMS.values())})(?![A-Za-z])\s*\}}?"
    r"\s*\^?\{?(?P<power>[23\u00b2\u00b3])?\}?[$.\s]*$"
)
_POWERS = {"\u00b2": "2", "\u00b3": "3"}


def unit_of(text: str) -> str | None:
    """The known unit that follows the number at the end of `text`, by its symbol; None without."""
    found = _UNITS.search(text)
    if found is None:
        return None
    name, power = found["name"], found["power"] or ""
    unit = next(u for u, forms in _FORMS.items() if re.fullmatch(forms, name))
    return unit + _POWERS.get(power, power)


def units_differ(given: str, expected: str) -> bool:
    """Whether both texts name a unit, and not the same."""
    units = unit_of(given), unit_of(expected)
    return None not in units and units[0] != units[1]
