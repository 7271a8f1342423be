"""NeMo-Skills' rule for proofs in Lean 4: our file and our verdict beside its own.

In: any Python, and a checkout of NVIDIA/NeMo-Skills. Out: the agreement over made-up messages, each
as the whole file that is compiled, and over made-up outputs of Lean. Lean itself is not run.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from bench.evaluations.agreement import Agreement, official
from tutti.tasks.scoring.lean.compiler import Compilation
from tutti.tasks.scoring.lean.proof import published_proof
from tutti.tasks.scoring.lean.scorer import published_verdict

HEADER = "import Mathlib\nimport Aesop\n\nset_option maxHeartbeats 0\n\nopen Nat Real\n\n"
STATEMENTS = (
    "theorem one (a b : Nat) (h : a < b) :\n    a + 1 ≤ b := by\n",
    "def two : Nat := 2\n\ntheorem one (a : Nat) : a + 1 = 1 + a :=\n  by\n",
)
PROOFS = (
    "omega",
    "have h := h\n  omega",
    "induction a with\n  | zero => rfl\n  | succ n ih => omega",
)
CODES = {
    "by": "theorem one (a b : Nat) (h : a < b) :\n    a + 1 ≤ b := by\n  {}",
    "line": "theorem one (a b : Nat) (h : a < b) : a + 1 ≤ b :=\nby\n  {}",
    "spaced": "theorem one (a b : Nat) (h : a < b) : a + 1 ≤ b :=\n\n  by  \n  {}\n\n",
    "same line": "theorem one : a + 1 ≤ b := by {}",
    "term": "theorem one : a + 1 ≤ b :=\n  fun h => h\n-- {}",
    "example": "example (a b : Nat) (h : a < b) : a + 1 ≤ b := by\n  {}",
    "lemma": "lemma zero : 0 = 0 := rfl\n\ntheorem one : a + 1 ≤ b := by\n  {}",
    "only lemma": "lemma one : a + 1 ≤ b := by\n  {}",
    "two": "theorem zero : 0 = 0 := rfl\n\ntheorem one : a + 1 ≤ b := by\n  {}",
    "default": "theorem one (n : Nat := 2) : a + 1 ≤ b := by\n  {}",
    "private": "private theorem one : a + 1 ≤ b := by\n  {}",
    "indented": "  theorem one : a + 1 ≤ b := by\n    {}",
    "proof": "{}",
    "proof by": "by\n  {}",
    "whole": HEADER + "/-- It is so. -/\ntheorem one : a + 1 ≤ b := by\n  {}",
    "no end": "theorem one : a + 1 ≤ b\n  {}",
    "windows": "theorem one : a + 1 ≤ b := by\r\n  {}\r\n",
    "empty": "",
}
MESSAGES = {
    "lean4": "A plan.\n\n```lean4\n{}\n```\nDone.",
    "lean": "A plan.\n\n```lean\n{}\n```",
    "lean3": "```lean3\n{}\n```",
    "fence": "```\n{}\n```",
    "upper": "```Lean4\n{}\n```",
    "python": "```python\nprint(1)\n```\n```lean4\n{}\n```\n```python\nprint(2)\n```",
    "both": "```lean4\n{}\n```\n```lean\nexact other\n```",
    "several": "```lean4\nsorry\n```\nBetter:\n```lean4\n{}\n```",
    "inline": "It is ```lean4 {}```",
    "final": "```lean4\nsorry\n```\n**FINAL ANSWER**```lean4\n{}\n```",
    "finals": "**FINAL ANSWER**\n```lean4\n{}\n```\n**FINAL ANSWER** ```lean4\nsorry\n```",
    "open": "```lean4\n{}",
    "closed": "{}\n```",
    "plain": "{}",
    "blank": "```lean4\n\n```\n{}",
}
OUTPUTS = (
    "",
    "Proof.lean:9:8: warning: declaration uses 'sorry'\n",
    "Proof.lean:9:8: warning: declaration uses `sorry`\n",
    "Proof.lean:9:8: warning: unused variable `h`\n",
    "SORRY",
    "sorryAx",
    "x" * 990 + " sorry",
    "Proof.lean:9:2: error: unsolved goals\n",
    "Proof.lean:9:2: warning: it is not_sorry\n",
)
STATUSES = {"completed": "ok", "failed": "error", "timeout": "timeout"}


def proofs(python: str, checkout: Path) -> Agreement:
    """Every message with each statement, and every output with each exit status."""
    messages, outputs = list(_messages()), list(_outputs())
    asked = [each for _, each in [*messages, *outputs]]
    said = official(python, "nemo_lean.py", [str(checkout)], asked)
    found = Agreement()
    for (kind, one), its in zip([*messages, *outputs], said, strict=True):
        if "generation" in one:
            ours = HEADER + one["formal_statement"] + published_proof(one["generation"])
            found.add(kind, ours, its["file"], repr(one["generation"]))
        else:
            ran = Compilation(STATUSES[one["process_status"]], one["stdout"], one["stderr"], 1.0)
            found.add(kind, published_verdict(ran).status, its["status"], repr(one))
    return found


def _messages() -> Iterator[tuple[str, dict[str, Any]]]:
    parts = product(MESSAGES.items(), CODES.values(), PROOFS, STATEMENTS)
    for (kind, message), code, proof, statement in parts:
        text = message.format(code.format(proof))
        yield kind, {"generation": text, "header": HEADER, "formal_statement": statement}


def _outputs() -> Iterator[tuple[str, dict[str, Any]]]:
    for status, stdout, stderr in product(STATUSES, OUTPUTS, OUTPUTS):
        yield "output", {"process_status": status, "stdout": stdout, "stderr": stderr}
