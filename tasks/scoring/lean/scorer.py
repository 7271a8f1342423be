"""A proof in Lean 4, compiled by the user's own Lean in the sandbox.

Target: ``header`` (imports, options), ``statement`` (the theorem up to ``:= by``, and the text
before it). ``lean4`` is NeMo-Skills' rule (commit 8b18f39): right if Lean exits with 0 within 30 s
and the first 1,000 characters of its output have no word ``sorry``; a proof that adds an axiom is
right by it. ``lean4_strict`` is ours: right if Lean exits with 0 within 60 s without an error, the
model's text has no ``sorry``, its theorem has the type of the statement, and its axioms are the
three standard ones at most; code that runs while Lean compiles is refused. A time-out is wrong.
"""

import json
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tutti.tasks.sandbox import CodeRunner
from tutti.tasks.scoring.lean.compiler import Compilation, compiled, time_limit
from tutti.tasks.scoring.lean.proof import (
    CheckedFile,
    Statement,
    checked_file,
    declaration,
    declared,
    published_proof,
    refusal,
    strict_block,
)
from tutti.tasks.scoring.rules.score import (
    Score,
    Scorer,
    ScorerFailed,
    ScoringResources,
    Submission,
    Target,
    needed,
)

SHOWN_CHARS = 500
PUBLISHED_CHARS = 1000  # of each stream, as NeMo-Skills' sandbox returns it
STANDARD_AXIOMS = frozenset({"propext", "Classical.choice", "Quot.sound"})
_SORRY = re.compile(r"\bsorry\b")
_AXIOMS = re.compile(
    r"'(?P<name>\S+)' (?:does not depend on any axioms|depends on axioms: \[(?P<list>[^\]]*)\])"
)


@dataclass(frozen=True)
class Verdict:
    """The verdict on a proof."""

    status: str  # "completed" if it is right; else why not
    why: str = ""  # Lean's first complaint, cut

    @property
    def right(self) -> bool:
        return self.status == "completed"


@dataclass(frozen=True)
class LeanMessage:
    """One line of ``lean --json``."""

    severity: str
    line: int  # the line where it begins, from 1; 0 if it has none
    text: str


def published_verdict(ran: Compilation) -> Verdict:
    if ran.status == "timeout":
        return Verdict("timeout")
    output = f"{ran.stdout[:PUBLISHED_CHARS]}\n{ran.stderr[:PUBLISHED_CHARS]}"
    if ran.status != "ok":
        return Verdict("failed", output.strip()[:SHOWN_CHARS])
    if _SORRY.search(output.lower()):
        return Verdict("has_sorry")
    return Verdict("completed")


def strict_verdict(file: CheckedFile, ran: Compilation) -> Verdict:
    """Our verdict on a file compiled with ``--json``; only our own ``#print axioms`` counts."""
    if ran.status == "timeout":
        return Verdict("timeout")
    messages = list(messages_in(ran.stdout))
    for message in messages:
        if message.severity == "error":
            return Verdict("failed", f"line {message.line}: {message.text}"[:SHOWN_CHARS])
    if ran.status != "ok":
        return Verdict("failed", (ran.stderr or ran.stdout).strip()[:SHOWN_CHARS])
    for message in messages:
        declares = message.severity == "warning" and message.text.startswith("declaration uses")
        if declares and message.line not in file.given:
            return Verdict("has_sorry", f"line {message.line}")
    printed = [each.text for each in messages if each.line == file.axioms_line]
    found = _AXIOMS.fullmatch(printed[0].strip()) if len(printed) == 1 else None
    if found is None or found["name"].removeprefix("_root_.") != file.check:
        return Verdict("unchecked", "Lean did not print the axioms of the proof")
    axioms = {each.strip() for each in (found["list"] or "").split(",")} - {""}
    if "sorryAx" in axioms:
        return Verdict("has_sorry", "the axiom sorryAx")
    if further := sorted(axioms - STANDARD_AXIOMS):
        return Verdict("axioms", ", ".join(further)[:SHOWN_CHARS])
    return Verdict("completed")


def messages_in(stdout: str) -> Iterator[LeanMessage]:
    """Yield the messages that ``lean --json`` printed, one per line; other lines are not Lean's."""
    for line in stdout.split("\n"):  # a message can hold other line ends
        if not line.startswith("{"):
            continue
        try:
            message = json.loads(line)
            severity, text = message["severity"], message["data"]
            place = message.get("pos") or {}
            yield LeanMessage(str(severity), int(place.get("line", 0)), str(text))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            continue


class Lean4(Scorer):
    """The scorer with NeMo-Skills' rule."""

    name = "lean4"
    needs = "sandbox"
    seconds: float = 30.0

    async def score(
        self, target: Target, submission: Submission, resources: ScoringResources
    ) -> Score:
        sandbox = resources.code_runner
        header, text = needed(target, "header", str), needed(target, "statement", str)
        if declaration(text) is None:
            raise ScorerFailed("lean: the target's statement has no theorem")
        return await self.prove(Statement(header, text), submission.final_text, sandbox)

    async def prove(self, statement: Statement, text: str, sandbox: CodeRunner) -> Score:
        proof = published_proof(text)
        file = statement.header + statement.text + proof
        ran, ran_by = await self.compile(statement, file, (), sandbox)
        return self.judged(published_verdict(ran), proof, ran_by)

    async def compile(
        self, statement: Statement, text: str, options: tuple[str, ...], sandbox: CodeRunner
    ) -> tuple[Compilation, dict[str, Any]]:
        """Compile a file that begins with the statement's header; return the run and its detail."""
        seconds = time_limit(self.seconds)
        ran, set_up = await compiled(sandbox, statement.header, text, options, seconds)
        ran_by = {"lean": set_up.version, "limit_s": seconds, "seconds": round(ran.seconds, 2)}
        return ran, ran_by

    def judged(self, verdict: Verdict, proof: str, ran_by: Mapping[str, Any]) -> Score:
        detail = {"status": verdict.status, **ran_by}
        detail |= {"why": verdict.why} if verdict.why else {}
        found = bool(proof.strip())
        return self.result(verdict.right, answer=proof, detail=detail, found_answer=found)


class Lean4Strict(Lean4):
    """The scorer with our rule: the statement as given, and the standard axioms only."""

    name = "lean4_strict"
    seconds = 60.0

    async def prove(self, statement: Statement, text: str, sandbox: CodeRunner) -> Score:
        block = strict_block(text)
        code = declared(statement, block)
        if refused := refusal(code):
            return self.judged(Verdict("refused", refused), block, {})
        file = checked_file(statement, code, secrets.token_hex(8))
        ran, ran_by = await self.compile(statement, file.text, ("--json",), sandbox)
        return self.judged(strict_verdict(file, ran), block, ran_by)
