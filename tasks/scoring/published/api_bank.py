"""API-Bank's check of a call, from its arguments and the recorded call, or by its execution.

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

`ApiBankExecuted` has the published rules: the call is executed, and the API's own check decides.
The publisher's programs run in a process of their own (`deployments/harnesses/api_bank_calls.py`),
with the Python of an environment and the checkout that ``make api-bank API_BANK=CHECKOUT`` names;
``TUTTI_HARNESS_API_BANK`` and ``TUTTI_API_BANK`` name others. They are no sandbox's programs: they
need a folder, and some of them packages or a network. A call's arguments are data to them; none is
evaluated as code. ``known`` and ``fails`` are not read, because the execution tells. The detail has
``error``, one of the nine kinds, ``OTHER`` for a call that the publisher's program counts under
none of them, or null; and ``why``. ``api_bank_3`` is the rule of level 3 (`lv3_evaluator.py`),
whose target has the gold ``result`` too. What the tool searcher finds is decided by an embedding
model; ``api_bank_3_words``, a rule of ours, has pieces of words in its place, and is otherwise the
same.
"""

import os
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from tutti.tasks.agents import API_BANK
from tutti.tasks.scoring.children.workers import WorkerDied, WorkerLate, pool_of
from tutti.tasks.scoring.score import (
    Score,
    Scorer,
    ScorerFailed,
    ScoringResources,
    Submission,
    Target,
    conversation,
    needed,
)
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


class ApiBankRecorded(Scorer):
    """API-Bank's own checks, as far as arguments and recorded results tell them."""

    name = "api_bank_recorded"
    version = "2"

    def evaluate(self, target: Target, submission: Submission) -> Score:
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


class ApiBankSession(Scorer):
    """A whole dialogue or sample: right if each gold call was made, each by its own API's check.

    As level 3 counts samples: one with any error is wrong. There each call follows the gold
    history; here the attempt goes its own way, so gold calls are found in their order among all.
    """

    name = "api_bank_session"
    version = "2"

    def evaluate(self, target: Target, submission: Submission) -> Score:
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


TIMEOUT_S = 60.0  # a call takes 0.1 s; one that searches tools loads a model
MAX_WORKERS = 2  # each takes about 60 MB
CHECKOUT = "TUTTI_API_BANK"


def checkout() -> Path:
    """The checkout whose APIs are executed. Raises ScorerFailed if none is named, or if there is
    no Python to run them."""
    noted = API_BANK.python.parent.parent / "checkout"
    named = os.environ.get(CHECKOUT) or (noted.is_file() and noted.read_text("utf-8").strip())
    if not named or not API_BANK.python.exists():
        missing = f"Python at {API_BANK.python}" if named else f"checkout: {CHECKOUT} is not set"
        raise ScorerFailed(
            f"api_bank: executes the APIs of a checkout of DAMO-ConvAI, and there is no {missing}; "
            f"name both: `{API_BANK.install}`"
        )
    return Path(named)


class ApiBankExecuted(Scorer):
    """API-Bank's evaluation of a call."""

    def __init__(self, name: str = "api_bank", level: int = 1, by_words: bool = False) -> None:
        """`level`: 3, or 1 for levels 1 and 2; `by_words`: tools are searched without a model."""
        self.name, self.version = name, "1"
        self._of_level_3, self._options = level == 3, ("words",) * by_words

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """Right if the attempt's first call passes. Raises ScorerFailed for another target, where
        the environment is absent, and for a call that needs a package or model that it lacks."""
        expected = needed(target, "calls", list)
        if len(expected) != 1 or "arguments" not in expected[0]:
            raise ScorerFailed(f"{self.name}: the target needs one call with arguments")
        wanted = {"wanted": needed(target, "result", dict)} if self._of_level_3 else {}
        made = calls_made(conversation(submission))
        if not made:
            return self._score(NO_CALL, "")
        if made[0].arguments is None:
            return self._score(UNREADABLE, made[0].written)
        gold = {name: expected[0][name] for name in ("name", "arguments")}
        asked = {"gold": gold, "made": {"name": made[0].name, "arguments": made[0].arguments}}
        return await self._executed(asked | wanted)

    async def _executed(self, asked: Mapping[str, Any]) -> Score:
        command = (*API_BANK.words, str(checkout()), *self._options)
        try:
            told = await pool_of(command, MAX_WORKERS).ask(asked, TIMEOUT_S)
        except (WorkerDied, WorkerLate, OSError) as error:
            raise ScorerFailed(f"{self.name}: {API_BANK.program}: {error}") from error
        if "unscored" in told:
            raise ScorerFailed(f"{self.name}: {told['unscored']}")
        return self._score(told["error"], told["why"])

    def _score(self, error: str | None, why: str) -> Score:
        detail = {"error": error, "why": why}
        return Score(self.name, self.version, float(error is None), error is None, detail=detail)


EXECUTED: dict[str, ApiBankExecuted] = {
    each.name: each
    for each in (
        ApiBankExecuted(),
        ApiBankExecuted("api_bank_3", level=3),
        ApiBankExecuted("api_bank_3_words", level=3, by_words=True),
    )
}
"""By name."""
