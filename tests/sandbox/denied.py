"""System calls that a sandbox's filter denies, by this machine's numbers."""

import os

from tutti.tasks.sandbox.filter import _ARCHITECTURES, _DENIED, _DENIED_WITHOUT_WALLS


def denied_calls(walled: bool = True) -> dict[str, int]:
    """Return the calls that are refused for any arguments, with this machine's numbers."""
    machine = os.uname().machine
    column = list(_ARCHITECTURES).index(machine) if machine in _ARCHITECTURES else None
    if column is None:
        return {}
    table = _DENIED if walled else _DENIED | _DENIED_WITHOUT_WALLS
    return {name: found for name, numbers in table.items() if (found := numbers[column])}
