"""Policies as a word on the command line: ``adaptive``, ``cap:8``, ``thunderagent:decay=true``."""

import inspect
import json
from typing import Any

from tutti.tasks.serving.scheduling import POLICIES, Policy, make_policy
from tutti.tasks.serving.simulation.errors import SimulationError


def parse_policy(text: str) -> Policy:
    """Create the policy that `text` names; a value without a name is for its first option.

    Raises SimulationError with `text` in the message.
    """
    name, _, given = text.partition(":")
    if name not in POLICIES:
        raise SimulationError(
            f"no policy {name!r} in {text!r}; known: {', '.join(sorted(POLICIES))}"
        )
    options: dict[str, Any] = {}
    for item in filter(None, given.split(",")):
        option, equals, value = item.rpartition("=")
        option = option if equals else _first_option(name, text)
        try:
            options[option] = json.loads(value)
        except (ValueError, RecursionError):
            options[option] = value
    try:
        return make_policy(name, options)
    except (TypeError, ValueError) as error:
        raise SimulationError(f"policy {text!r}: {error}") from error


def _first_option(name: str, text: str) -> str:
    found = inspect.signature(POLICIES[name]).parameters.values()
    named = [each.name for each in found if each.kind is not inspect.Parameter.VAR_KEYWORD]
    if not named:
        raise SimulationError(
            f"policy {text!r}: write the option's name, as in {name}:option=value"
        )
    return named[0]
