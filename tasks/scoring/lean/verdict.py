"""What Lean says of a proof: its exit status and its output in, a verdict out."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tutti.tasks.scoring.lean.proof import CheckedFile

SHOWN_CHARS = 500
PUBLISHED_CHARS = 1000
"""NeMo-Skills' sandbox returns this much of each stream, and looks for ``sorry`` in it only."""
STANDARD_AXIOMS = frozenset({"propext", "Classical.choice", "Quot.sound"})
_SORRY = re.compile(r"\bsorry\b")
_AXIOMS = re.compile(
    r"'(?P<name>\S+)' (?:does not depend on any axioms|depends on axioms: \[(?P<list>[^\]]*)\])"
)


@dataclass(frozen=True)
class Compilation:
    """One run of Lean."""

    status: str
    """"ok": exit code 0; "timeout"; else it failed."""
    stdout: str
    stderr: str
    seconds: float


@dataclass(frozen=True)
class Verdict:
    """What became of a proof."""

    status: str
    """"completed" if it is right; else why not."""
    why: str = ""
    """Lean's first complaint, cut."""

    @property
    def right(self) -> bool:
        """Whether the proof is right."""
        return self.status == "completed"


@dataclass(frozen=True)
class LeanMessage:
    """One line of ``lean --json``."""

    severity: str
    line: int
    """The line where it begins, from 1; 0 if it has none."""
    text: str


def published_verdict(ran: Compilation) -> Verdict:
    """NeMo-Skills' verdict: right if Lean exits with 0 and ``sorry`` is nowhere in its output."""
    if ran.status == "timeout":
        return Verdict("timeout")
    said = f"{ran.stdout[:PUBLISHED_CHARS]}\n{ran.stderr[:PUBLISHED_CHARS]}"
    if ran.status != "ok":
        return Verdict("failed", said.strip()[:SHOWN_CHARS])
    if _SORRY.search(said.lower()):
        return Verdict("has_sorry")
    return Verdict("completed")


def strict_verdict(file: CheckedFile, ran: Compilation) -> Verdict:
    """Our verdict of a checked file, compiled with ``--json``.

    Only the message at the place of our own ``#print axioms`` tells the axioms; the model's code
    can print the same words at another line.
    """
    if ran.status == "timeout":
        return Verdict("timeout")
    messages = list(messages_in(ran.stdout))
    for message in messages:
        if message.severity == "error":
            return Verdict("failed", f"line {message.line}: {message.text}"[:SHOWN_CHARS])
    if ran.status != "ok":
        return Verdict("failed", (ran.stderr or ran.stdout).strip()[:SHOWN_CHARS])
    for message in messages:
        if message.line not in file.given and _declares_sorry(message):
            return Verdict("has_sorry", f"line {message.line}")
    said = [each.text for each in messages if each.line == file.axioms_line]
    found = _AXIOMS.fullmatch(said[0].strip()) if len(said) == 1 else None
    if found is None or found["name"].removeprefix("_root_.") != file.check:
        return Verdict("unchecked", "Lean did not print the axioms of the proof")
    axioms = {each.strip() for each in (found["list"] or "").split(",")} - {""}
    if "sorryAx" in axioms:
        return Verdict("has_sorry", "the axiom sorryAx")
    if further := sorted(axioms - STANDARD_AXIOMS):
        return Verdict("axioms", ", ".join(further)[:SHOWN_CHARS])
    return Verdict("completed")


def messages_in(stdout: str) -> Iterator[LeanMessage]:
    """The messages that ``lean --json`` printed, a line each; other lines are not Lean's."""
    for line in stdout.split("\n"):  # a message can hold other line ends
        if not line.startswith("{"):
            continue
        try:
            said = json.loads(line)
            severity, text, place = said["severity"], said["data"], said.get("pos") or {}
            yield LeanMessage(str(severity), int(place.get("line", 0)), str(text))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            continue


def _declares_sorry(message: LeanMessage) -> bool:
    return message.severity == "warning" and message.text.startswith("declaration uses")
