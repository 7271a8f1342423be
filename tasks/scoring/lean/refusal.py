"""What our rule for proofs in Lean refuses before Lean runs: code that could forge the check.

Lean runs a file's own macros, elaborators and commands while it compiles the file, in the process
that also prints the axioms. A proof needs none of them, nor the names of Lean's own program
(`Lean`, `IO`), without which such code can do nothing. ``variable`` and ``include`` would give our
check a hypothesis. Attributes and options come from a list of harmless ones;
``debug.skipKernelTC``, for one, makes the kernel believe anything.

Words count outside comments; inside texts they count, because ``s!"…"`` can hold code.
"""

import re

from tutti.tasks.scoring.lean.proof import without_comments

WORDS = (
    # axioms, and what computes outside the kernel
    *("axiom", "native_decide", "ofReduceBool", "ofReduceNat", "reduceBool", "reduceNat"),
    *("trustCompiler", "unsafe", "implemented_by", "extern", "csimp"),
    # code that Lean runs
    *(r"run_\w+", "by_elab", "elab", "elab_rules", "initialize", r"builtin_\w+", "d?simproc"),
    *("d?simproc_decl", r"declare_\w+", r"register_\w+", "preprocessors", "oracle"),
    *("IO", "BaseIO", "EIO", "Lean", "System", "println", r"dbg\w+", "include_str"),
    # another meaning of our check's text, or a further hypothesis
    *("macro", "macro_rules", "syntax", "notation3?", "infix[lr]?", "prefix", "postfix"),
    *("binder_predicate", "variable", "include"),
)
"""Patterns of words."""
ATTRIBUTES = frozenset(
    "class coe elab_as_elim ext gcongr grind inline instance irreducible local mono"
    " norm_cast push_cast reducible refl scoped semireducible simp simps symm trans".split()
)
OPTIONS = re.compile(
    r"maxHeartbeats|maxRecDepth|maxUniverseOffset|autoImplicit|relaxedAutoImplicit|"
    r"exponentiation\.threshold|(?:linter|synthInstance|tactic|backward)(?:\.\w+)+"
)
# Lean's identifiers have fewer letters than `\w`: `5run_cmd` and `fᵒᵖrun_cmd` are two words each.
_WORD = re.compile(
    rf"(?<![A-Za-z_'])(?:{'|'.join(WORDS)}|eval%)(?![A-Za-z0-9_'])|\+\s*native(?![A-Za-z0-9_'])"
)
_COMMAND = re.compile(r"#(?:eval|exit|guard|test|sample)\w*!?")
# A comment can stand after the word, where `without_comments` leaves it: that is refused.
_OPTION = re.compile(r"set_option\b(?:\s+(\S*))?")
_ATTRIBUTE = re.compile(r"(?:@\[|(?<![A-Za-z_'])attribute(?:\s*\[)?)([^\]]*)")


def refusal(block: str) -> str | None:
    """What our rule refuses in the model's code, such as ``axiom``; None if nothing."""
    code = without_comments(block)
    for pattern in (_WORD, _COMMAND):
        if found := pattern.search(code):
            return found[0]
    for option in _OPTION.findall(code):
        if not OPTIONS.fullmatch(option):
            return f"set_option {option}"
    for attributes in _ATTRIBUTE.findall(code):
        for word in re.findall(r"--|[^\s,←↓↑-]+", attributes):  # a comment can hide the `]`
            if word not in ATTRIBUTES and not word.isdecimal():
                return f"attribute {word}"
    return None
