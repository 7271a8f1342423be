"""A proof in Lean 4, compiled by the user's own Lean in the sandbox.

Target: ``header`` (imports, options), ``statement`` (the theorem up to ``:= by``, with what stands
before it). Two rules:

- ``lean4``: NeMo-Skills' (commit 8b18f39). Right if Lean exits with 0 within 30 s and the first
  1,000 characters of its output have no word ``sorry``. A proof that adds an axiom, or that runs
  code to change what is checked, is right by it; so is ``native_decide``.
- ``lean4_strict``: ours. Right if Lean exits with 0 within 60 s without an error, nothing of the
  model's uses ``sorry``, its theorem has the type of the statement, which was elaborated before
  anything that the model wrote, and its axioms are `propext`, `Classical.choice` and `Quot.sound`
  at most. Code that runs while Lean compiles is refused (`refusal`).

A time-out is a wrong answer with the status ``timeout``. `project` says which Lean; `proof` has the
extraction.
"""

import secrets
from collections.abc import Mapping
from typing import Any

from tutti.tasks.scoring.lean.compiler import Job, compiled
from tutti.tasks.scoring.lean.project import time_limit
from tutti.tasks.scoring.lean.proof import (
    Statement,
    checked_file,
    declaration,
    declared,
    published_proof,
    strict_block,
)
from tutti.tasks.scoring.lean.refusal import refusal
from tutti.tasks.scoring.lean.verdict import Verdict, published_verdict, strict_verdict
from tutti.tasks.scoring.score import (
    CodeSandbox,
    Needs,
    Score,
    ScorerFailed,
    ScoringResources,
    Submission,
)
from tutti.tasks.scoring.target import needed, said


class Lean4:
    """NeMo-Skills' rule."""

    name: str = "lean4"
    version: str = "1"
    needs: Needs = "sandbox"
    seconds: float = 30.0

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """Right or wrong; the detail has the status, Lean's first complaint and its version.

        Raises ScorerFailed without a sandbox with walls or without Lean.
        """
        sandbox = _sandbox(resources)
        statement = _statement(target)
        proof = published_proof(said(submission))
        seconds = time_limit(self.seconds)
        job = Job(statement.header, statement.header + statement.text + proof, (), seconds)
        ran, set_up = await compiled(sandbox, job)
        verdict = published_verdict(ran)
        ran_by = {"lean": set_up.version, "limit_s": seconds, "seconds": round(ran.seconds, 2)}
        return _score(self, verdict, proof, ran_by)


class Lean4Strict:
    """Our rule: the statement as given, and the standard axioms only."""

    name: str = "lean4_strict"
    version: str = "1"
    needs: Needs = "sandbox"
    seconds: float = 60.0

    async def score(
        self, target: Mapping[str, Any], submission: Submission, resources: ScoringResources
    ) -> Score:
        """As `Lean4.score`."""
        sandbox = _sandbox(resources)
        statement = _statement(target)
        block = strict_block(said(submission))
        code = declared(statement, block)
        if refused := refusal(code):
            return _score(self, Verdict("refused", refused), block, {})
        seconds = time_limit(self.seconds)
        file = checked_file(statement, code, secrets.token_hex(8))
        job = Job(statement.header, file.text, ("--json",), seconds)
        ran, set_up = await compiled(sandbox, job)
        verdict = strict_verdict(file, ran)
        ran_by = {"lean": set_up.version, "limit_s": seconds, "seconds": round(ran.seconds, 2)}
        return _score(self, verdict, block, ran_by)


def _sandbox(resources: ScoringResources) -> CodeSandbox:
    if resources.sandbox is None:
        raise ScorerFailed("lean: needs a sandbox")
    return resources.sandbox


def _statement(target: Mapping[str, Any]) -> Statement:
    header, text = needed(target, "header", str), needed(target, "statement", str)
    if declaration(text) is None:
        raise ScorerFailed("lean: the target's statement has no theorem")
    return Statement(header, text)


def _score(
    scorer: Lean4 | Lean4Strict, verdict: Verdict, proof: str, ran_by: Mapping[str, Any]
) -> Score:
    detail: dict[str, Any] = {"status": verdict.status, **ran_by}
    if verdict.why:
        detail["why"] = verdict.why
    value, found = float(verdict.right), bool(proof.strip())
    return Score(
        scorer.name, scorer.version, value, verdict.right, proof, detail, found_answer=found
    )
