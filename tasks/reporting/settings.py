"""The settings of a stored sweep: its suite, as `sweeps.spec` holds it.

In: the JSON of a suite, of before or after its fields were put in groups. Out: the fields by their
own names, without the groups, so that sweeps of both kinds are compared field by field.
"""

import json
from typing import Any

from tutti.tasks.serving.scheduling import DEFAULT_CAP

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
    """The fields of a stored suite. A limit of its own is in the policy `cap`, as in new suites."""
    stored: dict[str, Any] = json.loads(spec or "{}")
    found = {name: value for name, value in stored.items() if name not in (*GROUPS, "cap")}
    for group in GROUPS:
        found |= stored.get(group) or {}
    limit = stored.get("cap", DEFAULT_CAP)
    if limit != DEFAULT_CAP:
        own = {"name": "cap", "limit": limit}
        found["policies"] = [own if each == "cap" else each for each in stored.get("policies", ())]
    return found
