"""Proofs in Lean 4: the proof in a message, the file that Lean compiles, and what Lean says."""
