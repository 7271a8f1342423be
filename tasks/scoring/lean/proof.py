"""From a model's message to a Lean file, by NeMo-Skills' rule and by ours.

NeMo-Skills' (`proof_utils.py` and `utils.py`, commit 8b18f39): of the text after the first
``**FINAL ANSWER**``, or of all, the last block that is fenced as ``lean4``, else ``lean3``, else
``lean``, else at all, else the text. Of it only the part after the first ``:=`` after its first
line that begins with ``theorem`` or ``example``, without a leading ``by``; all of it without such a
line. The file is the header, the statement and this proof; lemmas before the theorem are lost.

Ours: the last block fenced as ``lean4`` or ``lean``, else the last one of all, else the text. The
file is the header, then the statement under another name with ``sorry``, then the block, then a
theorem that has the type of the first and the block's theorem as its proof, and ``#print axioms``
of it. So the statement is elaborated before any text of the model, and Lean itself checks that the
model's theorem is the requested one; lemmas stay.
"""

import re
import textwrap
from dataclasses import dataclass

FINAL_ANSWER = "**FINAL ANSWER**"
_OPENS = re.compile(r"^[ \t]*(?:theorem|example)\b", re.M)
_NAME = r"\s+(?P<name>[^\s:({\[⦃]+)"
_DECLARES = tuple(
    re.compile(rf"^[ \t]*{word}{_NAME}", re.M)
    for word in ("theorem", "lemma", r"(?:noncomputable\s+)?def")
)
_SCOPE = re.compile(r"^[ \t]*(namespace|end)\s+(\S+)", re.M)
_FENCE = re.compile(r"[ \t]*```[ \t]*([\w+-]*)")
_FENCE_END = re.compile(r"[ \t]*```[ \t]*")
_IMPORT = re.compile(r"^[ \t]*import\s[^\n]*\n?", re.M)
_EXAMPLE = re.compile(r"^[ \t]*example\b", re.M)
_COMMENT_EDGES = re.compile(r"/-|-/|--[^\n]*")
_UNCLEAR_EDGE = re.compile(r"/-[-!]?/")


def published_proof(text: str) -> str:
    return _after_statement(_published_block(text))


def _published_block(text: str) -> str:
    if FINAL_ANSWER in text:
        text = text.split(FINAL_ANSWER, 1)[1].strip()
    for language in ("lean4", "lean3", "lean", ""):
        blocks: list[str] = re.findall(rf"```{language}(.*?)```", text, re.S)
        if blocks:
            if last := blocks[-1].strip():
                return last
            break
    return re.sub(r"^\s*```(?:lean4|lean3|lean)?|```\s*$", "", text).strip()


def _after_statement(code: str) -> str:
    """The text after a theorem's first ``:=``, without ``by``; all of `code` if it has none."""
    lines = "\n".join(code.strip().splitlines())
    opens = _OPENS.search(lines)
    at = lines.find(":=", opens.start()) if opens else -1
    if at < 0:
        return code.strip()
    first, newline, rest = lines[at + 2 :].partition("\n")
    first = first.strip()
    if not first:
        first, newline, rest = rest.partition("\n")
    opening = first.lstrip()
    if opening == "by":
        return rest.rstrip()
    if opening.startswith("by "):
        first = opening[3:]
    return f"{first}{newline}{rest}".rstrip()


def declaration(text: str) -> re.Match[str] | None:
    """The first theorem in `text`, else its first lemma, else its first definition, or None."""
    return next((found for each in _DECLARES if (found := each.search(text))), None)


@dataclass(frozen=True)
class Statement:
    """A theorem to prove. ProofNet also has definitions to complete."""

    header: str  # imports, options and opened namespaces
    text: str  # the theorem up to ``:= by``, with the definitions that it needs before it

    @property
    def _declaration(self) -> re.Match[str]:
        found = declaration(self.text)
        assert found is not None, f"no theorem in the statement {self.text!r}"
        return found

    @property
    def name(self) -> str:
        return self._declaration["name"]

    @property
    def full_name(self) -> str:
        """The theorem's name, with the namespaces that are open there."""
        open_ones: list[str] = []
        for word, name in _SCOPE.findall(self.definitions):
            if word == "namespace":
                open_ones.append(name)
            elif open_ones and open_ones[-1] == name:
                open_ones.pop()
        return ".".join([*open_ones, self.name])

    @property
    def kind(self) -> str:
        proves = re.match(r"\s*(?:theorem|lemma)\b", self.theorem)
        return "theorem" if proves else "noncomputable def"

    @property
    def definitions(self) -> str:
        return self.text[: self._declaration.start()]

    @property
    def theorem(self) -> str:
        return self.text[self._declaration.start() :]

    def renamed(self, name: str) -> str:
        start, end = self._declaration.span("name")
        return self.text[self._declaration.start() : start] + name + self.text[end:]


@dataclass(frozen=True)
class CheckedFile:
    """A Lean file with our check, and the positions of its parts (lines count from 1)."""

    text: str
    given: range  # the lines of the statement with `sorry`
    axioms_line: int  # the line of ``#print axioms``
    check: str  # the name of the theorem whose axioms are printed


def strict_block(text: str) -> str:
    blocks = _fenced(text)
    lean = [code for language, code in blocks if language in ("lean4", "lean")]
    found = lean or [code for _, code in blocks]
    return found[-1] if found else text


def _fenced(text: str) -> list[tuple[str, str]]:
    blocks: list[tuple[str, str]] = []
    language: str | None = None
    lines: list[str] = []
    for line in text.split("\n"):
        opening = _FENCE.match(line)
        if language is None:
            language, lines = (opening[1].lower() if opening else None), []
        elif _FENCE_END.fullmatch(line):
            blocks.append((language, "".join(f"{each}\n" for each in lines)))
            language = None
        else:
            lines.append(line)
    return blocks


def checked_file(statement: Statement, code: str, token: str) -> CheckedFile:
    """Return the file of our rule; `token` is part of the names that the model must not know."""
    parts = (statement.header.strip(), statement.definitions.strip())
    before = "".join(f"{part}\n\n" for part in parts if part)
    # An underscore first: `exact?` proposes no theorem of such a name.
    given = f"{statement.renamed(f'_root_._tutti_given_{token}').rstrip()}\n  sorry\n"
    first = before.count("\n") + 1
    body = f"{before}{given}\n{code.rstrip()}\n\n"
    check = f"tutti_check_{token}"
    body += f"{statement.kind} _root_.{check} : type_of% @_root_._tutti_given_{token} :="
    body += f" @_root_.{statement.full_name}\n"
    axioms_line = body.count("\n") + 1
    body += f"#print axioms _root_.{check}\n"
    return CheckedFile(body, range(first, first + given.count("\n")), axioms_line, check)


def declared(statement: Statement, block: str) -> str:
    """The model's declarations, without the text before them; a proof alone gets its statement."""
    block = _without(_without(block, statement.header), statement.definitions)
    block = _IMPORT.sub("", block)
    if _EXAMPLE.search(block):
        block = _EXAMPLE.sub(f"theorem {statement.name}", block, count=1)
    itself = rf"\b(?:theorem|lemma|def)\s+{re.escape(statement.name)}(?![\w'.!?])"
    if re.search(itself, without_comments(block)):
        return block
    proof = textwrap.dedent(block.strip("\n")).rstrip()
    proof = re.sub(r"\A\s*(?::=\s*)?by\b[ \t]*\n?", "", proof)
    indented = textwrap.indent(textwrap.dedent(proof), "  ")
    return f"{statement.theorem.rstrip()}\n{indented}"


def _without(block: str, part: str) -> str:
    """Return `block` without the first occurrence of `part`, with any spacing."""
    words = part.split()
    if not words:
        return block
    return re.sub(r"\s+".join(map(re.escape, words)) + r"\s*", "", block, count=1)


def without_comments(code: str) -> str:
    """Lean code, with a space for each comment.

    Only certain comments go, so that no code can hide from `refusal`: the code is unchanged where a
    text or a quoted name could hold the edge of a comment, and where a comment holds another's edge
    (``/-/-`` begins one, and Lean may take ``--`` after ``/--`` for a comment).
    """
    if '"' in code or "«" in code or _UNCLEAR_EDGE.search(code):
        return code
    kept, inside, at = [], False, 0
    while edge := _COMMENT_EDGES.search(code, at):
        ends = edge[0].startswith(("-/", "--/"))
        if inside != ends:
            return code  # an edge in a comment, or the end of one that never began
        if not inside:
            kept.append(code[at : edge.start()])
        inside = edge[0] == "/-"
        at = code.index("/", edge.start()) + 1 if ends else edge.end()
    return " ".join([*kept, "" if inside else code[at:]])


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
    """The first word of the model's code that could forge the check, such as ``axiom``, or None.

    Lean runs a file's own macros, elaborators and commands in the process that also prints the
    axioms. A proof needs none of them, nor the names of Lean's own program (`Lean`, `IO`).
    ``variable`` and ``include`` would give our check a hypothesis. ``debug.skipKernelTC``, for one,
    makes the kernel accept anything. Words inside texts count, because ``s!"…"`` can hold code.
    """
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
