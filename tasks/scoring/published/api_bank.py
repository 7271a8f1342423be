"""API-Bank's check of a call, from its arguments and the recorded call: nothing is executed.

The publisher executes the call on fresh databases, and then each API has a check of its own, of
input, output and exception. The APIs' code is not among the data. What a call with the recorded
arguments returns is recorded, so the checks of the input decide here:

- an argument that the API's check compares is compared by its rule (`CHECKS`; all others exactly);
- an argument that the check ignores but the API works with (a token, a keyword) must be the
  recorded one. Another one might return the same; such a call counts as
  wrong, and the detail has ``undecided``;
- a gold call that its own API rejects (``fails`` in the target) is wrong whatever is called.

The first call of the attempt counts, as there. Values are compared as the publisher's parser sees
them, as text. Target::

    {"calls": [{"name": "AddAgenda", "arguments": {...}, "fails": reason, absent if it passes}],
     "known": {"AddAgenda": [parameter, …]}}      # of the documentation that was shown

The detail's ``error`` is one of the publisher's kinds (`ERRORS`); a call is in one of them.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from tutti.tasks.scoring.score import Needs, Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.target import conversation, needed
from tutti.tasks.scoring.tool_calls import Call, calls_made, in_order

NO_CALL = "NO_API_CALL"
NAME = "API_NAME_MISMATCH"
EXCEPTION = "HAS_EXCEPTION"
INPUT = "INPUT_MISMATCH"
OUTPUT = "OUTPUT_MISMATCH"
UNKNOWN = "INVALID_INPUT_PARAMETER"
KEY = "KEY_ERROR"
UNREADABLE = "FAILED_PARSE_API_CALL"
MISSING = "MISS_INPUT_ARGUMENT"
ERRORS = (NO_CALL, NAME, EXCEPTION, INPUT, OUTPUT, UNKNOWN, KEY, UNREADABLE, MISSING)
"""The publisher's kinds of errors. What tells an exception or another output from another input is
the execution: of these, only a gold call's own fault is known here (`KEY`, `OUTPUT`)."""

Compare = Callable[[str, str], bool]


def text_of_value(value: Any) -> str:
    """A value as the publisher's parser reads it from the call's text."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else str(value)


def exactly(given: str, gold: str) -> bool:
    """The same text."""
    return given == gold


def anything(given: str, gold: str) -> bool:
    """Any text: the API finds its record by another argument too."""
    return True


def stripped(given: str, gold: str) -> bool:
    """The same text but for blanks at the ends."""
    return given.strip() == gold.strip()


def any_case(given: str, gold: str) -> bool:
    """The same text but for blanks at the ends and case."""
    return given.strip().lower() == gold.strip().lower()


def words(given: str, gold: str) -> bool:
    """More than half of all words, split at single spaces, are in both texts (Jaccard)."""
    one, other = set(given.split(" ")), set(gold.split(" "))
    return len(one & other) / len(one | other) > 0.5


def words_any_case(given: str, gold: str) -> bool:
    """`words` of the texts in lower case."""
    return words(given.lower(), gold.lower())


def unspaced(given: str, gold: str) -> bool:
    """The same text without its spaces."""
    return given.replace(" ", "") == gold.replace(" ", "")


def keywords(given: str, gold: str) -> bool:
    """The same words: capitals begin a word, as level 3's programs split them."""
    return _split(given) == _split(gold)


def same_date(given: str, gold: str) -> bool:
    """The same day; a short year is filled up. Two texts that are no dates are never the same."""
    return _date(given, "%Y-%m-%d") == _date(gold, "%Y-%m-%d") is not None


def same_time(given: str, gold: str) -> bool:
    """The same second, as `same_date`."""
    form = "%Y-%m-%d %H:%M:%S"
    return _date(given, form) == _date(gold, form) is not None


def same_month_day(given: str, gold: str) -> bool:
    """The same day of the year; a year is left out."""
    return _month_day(given) == _month_day(gold) is not None


def _split(text: str) -> list[str]:
    return re.sub(r"([A-Z])", r" \1", text).lower().split()


def _date(text: str, form: str) -> datetime | None:
    parts = text.strip().split("-")
    if len(parts) == 3:
        parts[0] = parts[0].zfill(4)
    try:
        return datetime.strptime("-".join(parts), form)
    except ValueError:
        return None


def _month_day(text: str) -> str | None:
    parts = text.strip().split("-")
    day = "-".join(parts[1:] if len(parts) == 3 else parts)
    found = _date(f"2000-{day}", "%Y-%m-%d")
    return None if found is None else f"{found:%m-%d}"


CHECKS: Mapping[str, Mapping[str, Compare]] = {
    **{name: {"content": words} for name in ("AddAgenda", "ModifyAgenda")},
    "AddReminder": {"content": words_any_case},
    "ModifyReminder": {"content": words_any_case},
    "QueryReminder": {"content": words_any_case},
    **{name: {"meeting_topic": words} for name in ("AddMeeting", "ModifyMeeting", "QueryMeeting")},
    "DeleteAgenda": {"location": anything},
    "DeleteReminder": {"content": anything},
    "Calculator": {"formula": unspaced},
    "CancelRegistration": {"appointment_id": stripped},
    "AppointmentRegistration": {
        "patient_name": stripped,
        "doctor_name": stripped,
        "date": same_date,
    },
    "ModifyRegistration": {
        "appointment_id": stripped,
        "new_appointment_date": same_date,
        "new_appointment_doctor": stripped,
    },
    "QueryRegistration": {"patient_name": stripped, "date": same_date},
    "QueryHealthData": {"user_id": any_case, "start_time": same_time, "end_time": same_time},
    "QueryHistoryToday": {"date": same_month_day},
    "QueryStock": {"stock_code": any_case, "date": same_date},
    "EmergencyKnowledge": {"symptom": any_case},
    "SymptomSearch": {"symptom": any_case},
    "DocumentQA": {"url": stripped, "question": stripped},
    "SendEmail": {"receiver": any_case, "subject": stripped, "content": stripped},
    **{name: {"name": any_case} for name in ("QueryScene", "DeleteScene")},
    "PlayMusic": {"music_name": any_case},
    "Dictionary": {"keyword": any_case},
    "ToolSearcher": {"keywords": keywords},
}
"""How an API's own check compares its arguments, where that is not exactly."""

UNCHECKED: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("AddAgenda", "ModifyAgenda", "QueryAgenda"), frozenset({"token"})),
    **dict.fromkeys(("AddReminder", "ModifyReminder", "QueryReminder"), frozenset({"token"})),
    **dict.fromkeys(("DeleteAgenda", "DeleteReminder"), frozenset({"token"})),
    "PlayMusic": frozenset({"music_name"}),
    "Dictionary": frozenset({"keyword"}),
    "Wiki": frozenset({"keyword"}),
    "SearchEngine": frozenset({"keyword"}),
    "Translate": frozenset({"src_lang", "tgt_lang"}),
    "ToolSearcher": frozenset({"keywords"}),
    "EmailReminder": frozenset({"content"}),
}
"""Arguments that the checks do not look at but the API works with: a call that differs in these
alone is undecided."""


def check_call(
    made: Call, expected: Mapping[str, Any], known: Mapping[str, Any]
) -> tuple[str | None, list[str]]:
    """The kind of error of a call, None for a right one, and the arguments that differ."""
    if made.name != expected["name"]:
        return NAME, []
    if made.arguments is None:
        return UNREADABLE, []
    gold = expected["arguments"]
    strange = [n for n in made.arguments if n not in gold and n not in known.get(made.name, ())]
    if strange:
        return UNKNOWN, strange
    absent = [name for name in gold if name not in made.arguments]
    if absent:
        return MISSING, absent
    if expected.get("fails"):
        return OUTPUT, []
    added = [name for name in made.arguments if name not in gold]
    rules = CHECKS.get(made.name, {})
    differing = [
        name
        for name, value in gold.items()
        if not rules.get(name, exactly)(text_of_value(made.arguments[name]), text_of_value(value))
    ]
    return (INPUT, added + differing) if added or differing else (None, [])


def is_undecided(name: str, error: str | None, differing: list[str]) -> bool:
    """Whether only an execution would tell: what differs is nothing that the check looks at."""
    unchecked = UNCHECKED.get(name, frozenset())
    return error == INPUT and bool(differing) and set(differing) <= unchecked


class ApiBankRecorded:
    """API-Bank's own checks, as far as arguments and recorded results tell them."""

    name: str = "api_bank_recorded"
    version: str = "2"
    needs: Needs = "pure"

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """Right if the attempt's first call passes. Raises ScorerFailed for another target."""
        expected = needed(target, "calls", list)
        if len(expected) != 1 or "arguments" not in expected[0]:
            raise ScorerFailed(f"{self.name}: the target needs one call with arguments")
        made = calls_made(conversation(submission))
        if not made:
            return self._score(NO_CALL, [], "")
        error, differing = check_call(made[0], expected[0], target.get("known", {}))
        return self._score(error, differing, made[0].name)

    def _score(self, error: str | None, differing: list[str], called: str) -> Score:
        undecided = is_undecided(called, error, differing)
        detail = {"error": error, "differing": differing, "undecided": undecided}
        return Score(self.name, self.version, float(error is None), error is None, detail=detail)


class ApiBankSession:
    """A whole dialogue or sample: right if each gold call was made, each by its own API's check.

    As level 3 counts samples: one with any error is wrong. There each call follows the gold
    history; here the attempt goes its own way, so gold calls are found in their order among all.
    """

    name: str = "api_bank_session"
    version: str = "2"
    needs: Needs = "pure"

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """The value is the share of gold calls that were made, correct if all were."""
        expected = needed(target, "calls", list)
        if not expected or not all("arguments" in call for call in expected):
            raise ScorerFailed(f"{self.name}: the target needs calls with arguments")
        made, known = calls_made(conversation(submission)), target.get("known", {})
        table = [[check_call(call, one, known)[0] is None for one in expected] for call in made]
        found = {j for _, j in in_order(table, len(expected))}
        missed = [call["name"] for j, call in enumerate(expected) if j not in found]
        value = len(found) / len(expected)
        detail = {"missed": missed, "calls": len(expected), "made": len(made)}
        return Score(self.name, self.version, value, not missed, detail=detail)
