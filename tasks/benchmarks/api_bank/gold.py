"""Gold calls of API-Bank that its own APIs reject, and those that need an earlier call.

The APIs' code is not among the data, so the rules follow from the data alone. They select the calls
that failed when the APIs were run over all gold calls: 335 of level 1's 389 pass in one session
(328 with fresh databases for each call) and 64 of level 2's 74.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tutti.tasks.benchmarks.rows import as_row, read_json

NO_FAULT = "no"
# The API parses no list out of a text, so a record that is text is never equal to its own.
RECORD = "the record is text where the API compares lists"
SWITCH = "the data say device_id, the API names the argument otherwise"
MEETING = "attendees are text where the API compares a list"
SCENE = "the scene's name differs from the database's by its case"
DRAWN = "the answer holds a number that the API draws anew"
Call = tuple[str, Mapping[str, Any]]
"""Name and arguments."""
MEETINGS = ("AddMeeting", "ModifyMeeting", "DeleteMeeting", "QueryMeeting")


def read_databases(home: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the accounts and scenes of ``init_database`` under `home`; empty if that folder is
    missing. Raises BadRow for one that is not an object."""
    files = [home / "init_database" / name for name in ("Account.json", "Scenes.json")]
    accounts, scenes = ({} if not each.is_file() else _object(each) for each in files)
    return accounts, scenes


def _object(file: Path) -> dict[str, Any]:
    return dict(as_row(file, 1, read_json(file)).data)


def fault_of(
    name: str, arguments: Mapping[str, Any], earlier: Sequence[Call], scenes: Mapping[str, Any]
) -> str:
    """Return why the API `name` rejects a gold call; `NO_FAULT` if no fault is known. `earlier` are
    the dialogue's previous calls."""
    if name == "RecordHealthData" and isinstance(arguments.get("health_data"), str):
        return RECORD
    if name in ("TimedSwitch", "CancelTimedSwitch") and "device_id" in arguments:
        return SWITCH
    if name in MEETINGS and isinstance(arguments.get("attendees"), str):
        return MEETING
    if name == "QueryScene" and scenes and arguments.get("name") not in scenes:
        return SCENE
    keys = ("patient_name", "date")
    if name == "QueryRegistration" and any(
        before == "AppointmentRegistration" and all(given.get(k) == arguments.get(k) for k in keys)
        for before, given in earlier
    ):
        return DRAWN
    return NO_FAULT


def needs_session(name: str, arguments: Mapping[str, Any], accounts: Mapping[str, Any]) -> bool:
    """Whether a call succeeds only after the dialogue's earlier calls, not on fresh databases."""
    if name == "ForgotPassword":
        return "verification_code" in arguments  # which an earlier call gave
    account = accounts.get(str(arguments.get("username")))
    if name == "GetUserToken" and accounts:
        return account is None or account.get("password") != arguments.get("password")
    return name == "RegisterUser" and account is not None  # which an earlier call deleted
