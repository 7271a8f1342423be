"""The settings of a stored sweep: its suite, as `sweeps.spec` holds it.

In: the JSON of a suite. Out: the fields by their own names, without the groups, so that sweeps are
compared field by field.
"""

import json
from typing import Any

GROUPS = (
    "data",
    "roles",
    "sampling",
    "limits",
    "repetition",
    "stopping",
    "execution",
    "harness",
    "report",
)
"""Keys of a suite that hold other fields; `tutti.tasks.sweeps.spec` defines them."""


def settings_of(spec: str | None) -> dict[str, Any]:
    """The fields of a stored suite."""
    stored: dict[str, Any] = json.loads(spec or "{}")
    found = {name: value for name, value in stored.items() if name not in GROUPS}
    for group in GROUPS:
        found |= stored.get(group) or {}
    return found
