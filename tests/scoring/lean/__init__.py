"""Tests of proofs in Lean 4.

`recorded` has the output of a real Lean 4.28 (a pre-release, compiled to WebAssembly, with its core
library only) for our own files: ``.lean`` is the file, ``.jsonl`` its ``--json`` output, ``.txt``
the plain one. That build compiles every file as a `module`, where ``#print axioms`` is an error.
"""
