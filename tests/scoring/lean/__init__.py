"""Proofs in Lean 4.

`recorded` has what a real Lean 4.28 (a pre-release, compiled to WebAssembly, its core library only)
said of our own files: ``.lean`` the file, ``.jsonl`` its ``--json`` output, ``.txt`` the plain one.
That build compiles every file as a `module`, where ``#print axioms`` is an error.
"""
