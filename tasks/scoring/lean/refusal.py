"""What our rule for proofs in Lean refuses before Lean runs: code that could forge the check.

Lean runs a file's own macros, elaborators and commands while it compiles the file, in the process
that also prints the axioms. A proof needs none of them. Attributes and options come from a list of
harmless ones; ``debug.skipKernelTC``, for one, makes the kernel believe anything.

Words count outside comments; inside texts they count, because ``s!"…"`` can hold code. A hypothesis
cannot have such a name, since nearly all are keywords of Lean.
"""

import re

from tutti.tasks.scoring.lean.proof import without_comments

CODE = (
    "axiom|binder_predicate|builtin_\\w+|by_elab|csimp|declare_\\w+|elab|elab_rules|d?simproc|"
    "extern|implemented_by|infixl?|infixr|initialize|macro|macro_rules|native_decide|notation3?|"
    "ofReduceBool|ofReduceNat|postfix|prefix|reduceBool|reduceNat|register_\\w+|run_\\w+|d?simproc_decl"
    "|syntax|trustCompiler|unsafe"
)
"""Words that run code, or give axioms or a new meaning to the check's text."""
ATTRIBUTES = frozenset(
    "class coe elab_as_elim ext gcongr grind inline instance irreducible local mono"
    " norm_cast push_cast reducible refl scoped semireducible simp simps symm trans".split()
)
OPTIONS = re.compile(
    r"maxHeartbeats|maxRecDepth|maxUniverseOffset|autoImplicit|relaxedAutoImplicit|"
    r"exponentiation\.threshold|(?:linter|pp|synthInstance|trace|tactic|Elab|backward)(?:\.\w+)+|"
    r"diagnostics(?:\.\w+)*|profiler(?:\.\w+)*"
)
_CODE = re.compile(rf"(?<![\w'])(?:{CODE}|eval%)(?![\w'])|\+\s*native\b")
_COMMAND = re.compile(r"#(?:eval|exit|guard|test|sample)\w*!?")
_OPTION = re.compile(r"\bset_option\s+(\S*)")
_ATTRIBUTE = re.compile(r"(?:@\[|\battribute\s*\[)([^\]]*)")


def refusal(block: str) -> str | None:
    """What our rule refuses in the model's code, such as ``axiom``; None if nothing."""
    code = without_comments(block)
    for pattern in (_CODE, _COMMAND):
        if found := pattern.search(code):
            return found[0]
    for option in _OPTION.findall(code):
        if not OPTIONS.fullmatch(option):
            return f"set_option {option}"
    for attributes in _ATTRIBUTE.findall(code):
        words = re.findall(r"[^\s,←↓↑-]+", attributes)
        for word in words:
            if word not in ATTRIBUTES and not word.isdecimal():
                return f"attribute {word}"
    return None
