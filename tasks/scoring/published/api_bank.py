"""API-Bank's check of a call, from its arguments and the recorded call, or by its execution.

The first call of the attempt counts. Target: ``{"calls": [{"name": "AddAgenda", "arguments": {...},
"fails": reason, absent if it passes}], "known": {"AddAgenda": [parameter, …]}}``.

The publisher executes the call, and then each API has a check of its own. `api_bank_recorded`
decides by the checks of the input: an argument that the API's check compares is compared by its
rule (`CHECKS`; all others exactly); an argument that only the API processes (`UNCHECKED`) must be
the recorded one, else the call counts as wrong and the detail has ``undecided``; if its own API
rejects a gold call, any call is wrong. `ApiBankExecuted` has the published rules.
"""

import os
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from tutti.tasks.agents.commands import API_BANK
from tutti.tasks.scoring.children.workers import WorkerDied, WorkerLate, pool_of
from tutti.tasks.scoring.rules.score import (
    Score,
    Scorer,
    ScorerFailed,
    ScoringResources,
    Submission,
    Target,
    needed,
)
from tutti.tasks.scoring.rules.tool_calls import Call, calls_made, in_order

NO_CALL = "NO_API_CALL"
NAME = "API_NAME_MISMATCH"
INPUT = "INPUT_MISMATCH"
OUTPUT = "OUTPUT_MISMATCH"
UNKNOWN = "INVALID_INPUT_PARAMETER"
UNREADABLE = "FAILED_PARSE_API_CALL"
MISSING = "MISS_INPUT_ARGUMENT"

Compare = Callable[[str, str], bool]


def text_of_value(value: Any) -> str:
    """Return a value as the publisher's parser reads it from the call's text."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else str(value)


def words(given: str, gold: str) -> bool:
    """More than half of all words, split at single spaces, are in both texts (Jaccard)."""
    one, other = set(given.split(" ")), set(gold.split(" "))
    return len(one & other) / len(one | other) > 0.5


def _by(read: Callable[[str], Any]) -> Compare:
    """Compare two texts by their parsed values; texts that cannot be parsed (None) differ."""
    return lambda given, gold: read(given) == read(gold) is not None


def _date(text: str, form: str = "%Y-%m-%d") -> datetime | None:
    parts = text.strip().split("-")
    if len(parts) == 3:
        parts[0] = parts[0].zfill(4)
    try:
        return datetime.strptime("-".join(parts), form)
    except ValueError:
        return None


def _month_day(text: str) -> datetime | None:
    parts = text.strip().split("-")
    return _date("-".join(["2000", *(parts[1:] if len(parts) == 3 else parts)]))


_exactly = _by(str)
_stripped = _by(str.strip)
_any_case = _by(lambda text: text.strip().lower())
_same_date = _by(_date)
_same_time = _by(lambda text: _date(text, "%Y-%m-%d %H:%M:%S"))
# Level 3's programs split keywords before capitals.
_keywords = _by(lambda text: re.sub(r"([A-Z])", r" \1", text).lower().split())

CHECKS: Mapping[str, Mapping[str, Compare]] = {
    **{name: {"content": words} for name in ("AddAgenda", "ModifyAgenda")},
    **{
        name: {"content": lambda given, gold: words(given.lower(), gold.lower())}
        for name in ("AddReminder", "ModifyReminder", "QueryReminder")
    },
    **{name: {"meeting_topic": words} for name in ("AddMeeting", "ModifyMeeting", "QueryMeeting")},
    "DeleteAgenda": {"location": lambda given, gold: True},
    "DeleteReminder": {"content": lambda given, gold: True},
    "Calculator": {"formula": _by(lambda text: text.replace(" ", ""))},
    "CancelRegistration": {"appointment_id": _stripped},
    "AppointmentRegistration": {
        "patient_name": _stripped,
        "doctor_name": _stripped,
        "date": _same_date,
    },
    "ModifyRegistration": {
        "appointment_id": _stripped,
        "new_appointment_date": _same_date,
        "new_appointment_doctor": _stripped,
    },
    "QueryRegistration": {"patient_name": _stripped, "date": _same_date},
    "QueryHealthData": {"user_id": _any_case, "start_time": _same_time, "end_time": _same_time},
    "QueryHistoryToday": {"date": _by(_month_day)},
    "QueryStock": {"stock_code": _any_case, "date": _same_date},
    "EmergencyKnowledge": {"symptom": _any_case},
    "SymptomSearch": {"symptom": _any_case},
    "DocumentQA": {"url": _stripped, "question": _stripped},
    "SendEmail": {"receiver": _any_case, "subject": _stripped, "content": _stripped},
    **{name: {"name": _any_case} for name in ("QueryScene", "DeleteScene")},
    "PlayMusic": {"music_name": _any_case},
    "Dictionary": {"keyword": _any_case},
    "ToolSearcher": {"keywords": _keywords},
}
"""The comparisons of an API's own check, for arguments that it does not compare exactly."""

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
"""Arguments that only the API works with: a call that differs in these alone is undecided."""


def check_call(
    made: Call, expected: Mapping[str, Any], known: Mapping[str, Any]
) -> tuple[str | None, list[str]]:
    """Return the kind of error of a call, None for a right one, and the arguments that differ."""
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
        if not rules.get(name, _exactly)(text_of_value(made.arguments[name]), text_of_value(value))
    ]
    return (INPUT, added + differing) if added or differing else (None, [])


class ApiBankRecorded(Scorer):
    """API-Bank's own checks, as far as arguments and recorded results determine them."""

    name = "api_bank_recorded"
    version = "2"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        """Right if the attempt's first call passes. Raises ScorerFailed for another target."""
        expected = _only_call(target)
        made = calls_made(submission.conversation)
        error: str | None = NO_CALL
        differing, undecided = list[str](), False
        if made:
            error, differing = check_call(made[0], expected, target.get("known", {}))
            unchecked = UNCHECKED.get(made[0].name, frozenset())
            undecided = error == INPUT and bool(differing) and set(differing) <= unchecked
        detail = {"error": error, "differing": differing, "undecided": undecided}
        return self.result(error is None, detail=detail)


def _only_call(target: Target) -> dict[str, Any]:
    expected = needed(target, "calls", list)
    if len(expected) != 1 or "arguments" not in expected[0]:
        raise ScorerFailed("api_bank: the target needs one call with arguments")
    call: dict[str, Any] = expected[0]
    return call


class ApiBankSession(Scorer):
    """A whole dialogue or sample: right if each gold call was made, each by its own API's check.

    As in level 3 one with any error is wrong; gold calls are searched in their order among all
    calls.
    """

    name = "api_bank_session"
    version = "2"

    def evaluate(self, target: Target, submission: Submission) -> Score:
        """The value is the share of gold calls that were made, correct if all were."""
        expected = needed(target, "calls", list)
        if not expected or not all("arguments" in call for call in expected):
            raise ScorerFailed(f"{self.name}: the target needs calls with arguments")
        made, known = calls_made(submission.conversation), target.get("known", {})
        table = [[check_call(call, one, known)[0] is None for one in expected] for call in made]
        found = {j for _, j in in_order(table, len(expected))}
        missed = [call["name"] for j, call in enumerate(expected) if j not in found]
        value = len(found) / len(expected)
        detail = {"missed": missed, "calls": len(expected), "made": len(made)}
        return self.result(not missed, value, detail=detail)


TIMEOUT_S = 60.0  # a call takes 0.1 s; one that searches tools loads a model
MAX_WORKERS = 2  # each takes about 60 MB
CHECKOUT = "TUTTI_API_BANK"


def checkout() -> Path:
    """Return the checkout whose APIs are executed. Raises ScorerFailed without it or without its
    Python."""
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
    """API-Bank's evaluation of a call: it is executed, and the API's own check decides.

    The publisher's programs run in a process of their own, with the Python and checkout that ``make
    api-bank API_BANK=CHECKOUT`` names (or ``TUTTI_HARNESS_API_BANK`` and ``TUTTI_API_BANK``). They
    are not sandboxed: they need a folder, and some of them packages or a network. A call's
    arguments are data to them. The detail has ``error``, one of the nine kinds, ``OTHER`` or null;
    and ``why``. ``api_bank_3`` is the rule of level 3 (`lv3_evaluator.py`), whose target has the
    gold ``result`` too; its tool searcher uses an embedding model, ``api_bank_3_words`` pieces of
    words.
    """

    def __init__(self, name: str = "api_bank", level: int = 1, by_words: bool = False) -> None:
        """`level`: 3, or 1 for levels 1 and 2; `by_words`: tools are searched without a model."""
        self.name, self.version = name, "1"
        self._of_level_3, self._options = level == 3, ("words",) * by_words

    async def score(
        self, target: Target, submission: Submission, resources: ScoringResources
    ) -> Score:
        """Right if the attempt's first call passes. Raises ScorerFailed also for a missing
        package."""
        expected = _only_call(target)
        wanted = {"wanted": needed(target, "result", dict)} if self._of_level_3 else {}
        made = calls_made(submission.conversation)
        if not made:
            return self.result(False, detail={"error": NO_CALL, "why": ""})
        if made[0].arguments is None:
            return self.result(False, detail={"error": UNREADABLE, "why": made[0].written})
        gold = {name: expected[name] for name in ("name", "arguments")}
        call = {"name": made[0].name, "arguments": made[0].arguments}
        command = (*API_BANK.words, str(checkout()), *self._options)
        try:
            request = {"gold": gold, "made": call} | wanted
            answer = await pool_of(command, MAX_WORKERS).ask(request, TIMEOUT_S)
        except (WorkerDied, WorkerLate, OSError) as error:
            raise ScorerFailed(f"{self.name}: {API_BANK.program}: {error}") from error
        if "unscored" in answer:
            raise ScorerFailed(f"{self.name}: {answer['unscored']}")
        detail = {"error": answer["error"], "why": answer["why"]}
        return self.result(detail["error"] is None, detail=detail)


EXECUTED: dict[str, ApiBankExecuted] = {
    each.name: each
    for each in (
        ApiBankExecuted(),
        ApiBankExecuted("api_bank_3", level=3),
        ApiBankExecuted("api_bank_3_words", level=3, by_words=True),
    )
}
"""By name."""
