"""Tests with a real Lean, named by TUTTI_LEAN_PROJECT or TUTTI_LEAN_COMMAND. No Mathlib is
needed."""

import os

import pytest

from tutti.tasks.sandbox import Sandbox
from tutti.tasks.scoring import SCORERS, ScoringResources, Submission

TARGET = {
    "header": "set_option maxHeartbeats 400000\n\n",
    "statement": "theorem next_le (a b : Nat) (h : a < b) : a + 1 ≤ b := by\n",
}
PROOFS = [
    ("  omega", "completed", "completed"),
    ("  have := h\n  exact Nat.succ_le_of_lt this", "completed", "completed"),
    ("  rfl", "failed", "failed"),
    ("  omega )", "failed", "failed"),
    ("  sorry", "has_sorry", "has_sorry"),
    ("  exact cheat _", "failed", "refused"),  # the published rule drops the axiom before it
    ("  repeat (have h := h)", "timeout", "timeout"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("proof", "published", "strict"), PROOFS)
async def test_real_lean(
    walled: Sandbox, monkeypatch: pytest.MonkeyPatch, proof: str, published: str, strict: str
) -> None:
    """Each kind of proof gets its verdict by both rules."""
    if not (os.environ.get("TUTTI_LEAN_PROJECT") or os.environ.get("TUTTI_LEAN_COMMAND")):
        pytest.skip("no Lean 4: TUTTI_LEAN_PROJECT and TUTTI_LEAN_COMMAND are not set")
    before = "axiom cheat : ∀ p : Prop, p\n" if "cheat" in proof else ""
    text = f"```lean4\n{before}{TARGET['statement']}{proof}\n```"
    for rule, status in (("lean4", published), ("lean4_strict", strict)):
        score = await SCORERS[rule].score(
            TARGET, Submission(None, text), ScoringResources(sandbox=walled)
        )
        wanted = (status, "failed") if status == "timeout" else (status,)
        assert score.detail["status"] in wanted, score.detail
