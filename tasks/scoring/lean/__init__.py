"""Proofs in Lean 4: the proof in a message, the file that Lean compiles, and Lean's output."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.scoring.lean.compiler import LEAN_INSTALL as LEAN_INSTALL
    from tutti.tasks.scoring.lean.compiler import lean_set_up as lean_set_up
    from tutti.tasks.scoring.lean.proof import declaration as declaration

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
