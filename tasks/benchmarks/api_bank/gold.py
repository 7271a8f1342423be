"""Finds the gold calls of API-Bank that its own APIs reject, and those that need an earlier call.

In: a call, the calls before it in its dialogue, and the databases. Out: a `ReplayNote`. The APIs'
code is not among the data, so nothing is run here; the rules below follow from the data alone and
pick out the calls that failed when the APIs were run over all gold calls (508, of which 45 search
for tools): 335 of level 1's 389 pass in one session (328 when each call gets fresh databases) and
64 of level 2's 74. A model that repeats every gold call therefore scores 86 % by the reference's
checker; here, where calls are compared by structure, it scores 100 %, and ``known_bad`` marks the
meaningless calls. (Ten calls to a dictionary, a translator or the web failed for want of a
network; they are not known to be bad.)
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti.tasks.benchmarks.errors import BadRow
from tutti.tasks.benchmarks.rows import read_json

NO_FAULT = "no"
# The API parses no list out of a text, so a record that is text is never equal to its own.
RECORD = "the record is text where the API compares lists"
SWITCH = "the data say device_id, the API names the argument otherwise"
MEETING = "attendees are text where the API compares a list"
SCENE = "the scene's name differs from the database's by its case"
DRAWN = "the answer holds a number that the API draws anew"
MEETINGS = ("AddMeeting", "ModifyMeeting", "DeleteMeeting", "QueryMeeting")


@dataclass(frozen=True)
class ReplayNote:
    """The result of replaying one gold call by these rules."""

    fault: str = NO_FAULT
    """Why its API rejects it; `NO_FAULT` if no fault is known."""
    needs_session: bool = False
    """Whether it succeeds only after the dialogue's earlier calls, not on fresh databases."""


@dataclass(frozen=True)
class Databases:
    """The parts of ``init_database`` that the rules need; empty if that folder is missing."""

    accounts: Mapping[str, Any]
    scenes: frozenset[str]

    @classmethod
    def of(cls, home: Path) -> "Databases":
        """Read the databases under `home`. Raises BadRow for one that is not an object."""
        folder = home / "init_database"
        return cls(_table(folder / "Account.json"), frozenset(_table(folder / "Scenes.json")))


def _table(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    found = read_json(file)
    if not isinstance(found, dict):
        raise BadRow(file, None, "", f"not an object: {json.dumps(found)[:80]}")
    return found


def replay_note(
    name: str,
    arguments: Mapping[str, Any],
    earlier: Sequence[tuple[str, Mapping[str, Any]]],
    databases: Databases,
) -> ReplayNote:
    """Check the gold call of API `name`; `earlier` are the dialogue's previous calls."""
    if name == "RecordHealthData" and isinstance(arguments.get("health_data"), str):
        return ReplayNote(RECORD)
    if name in ("TimedSwitch", "CancelTimedSwitch") and "device_id" in arguments:
        return ReplayNote(SWITCH)
    if name in MEETINGS and isinstance(arguments.get("attendees"), str):
        return ReplayNote(MEETING)
    if name == "QueryScene" and databases.scenes and arguments.get("name") not in databases.scenes:
        return ReplayNote(SCENE)
    if name == "QueryRegistration" and _registered(arguments, earlier):
        return ReplayNote(DRAWN)
    return ReplayNote(needs_session=_needs_session(name, arguments, databases.accounts))


def _registered(
    arguments: Mapping[str, Any], earlier: Sequence[tuple[str, Mapping[str, Any]]]
) -> bool:
    """Whether the dialogue itself made the required registration."""
    keys = ("patient_name", "date")
    return any(
        name == "AppointmentRegistration" and all(made.get(k) == arguments.get(k) for k in keys)
        for name, made in earlier
    )


def _needs_session(name: str, arguments: Mapping[str, Any], accounts: Mapping[str, Any]) -> bool:
    if name == "ForgotPassword":
        return "verification_code" in arguments  # which an earlier call gave
    account = accounts.get(str(arguments.get("username")))
    if name == "GetUserToken" and accounts:
        return account is None or account.get("password") != arguments.get("password")
    return name == "RegisterUser" and account is not None  # which an earlier call deleted
