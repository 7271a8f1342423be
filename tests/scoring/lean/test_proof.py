"""Tests of extracting the proof from a message by both rules, and of the compiled file."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.scoring.lean.proof import (
    Statement,
    _fenced,
    _published_block,
    checked_file,
    declared,
    published_proof,
    strict_block,
    without_comments,
)

STATEMENT = Statement(
    "import Mathlib\n\nopen Nat\n\n", "theorem two_lt (a : Nat) (h : 2 < a) : 1 < a := by\n"
)
DEFINED = Statement(
    "import Mathlib\n",
    "namespace Game\ndef start : Nat := 1\n\nlemma one : start = 1 := by rfl\n\n"
    "theorem two (a : Nat) : a + start = a + 1 := by\n",
)


@pytest.mark.parametrize(
    ("said", "proof"),
    [
        ("```lean4\ntheorem x : 1 = 1 := by\n  rfl\n```", "  rfl"),
        ("```lean4\ntheorem x :\n  1 = 1 :=\n  by\n  rfl\n```", "  rfl"),
        ("```lean4\ntheorem x : 1 = 1 := by rfl\n```", "rfl"),
        ("```lean4\nlemma y : True := trivial\nexample : 1 = 1 := by\n  rfl\n```", "  rfl"),
        ("```lean4\nintro h\n  rfl\n```", "intro h\n  rfl"),
        ("```lean4\nfirst\n```\nno:\n```lean4\nsecond\n```", "second"),
        ("```lean\nsecond\n```\n```lean4\nfirst\n```\n```python\nlast\n```", "first"),
        ("```python\nx\n```", "python\nx"),  # a fence without language matches any
        ("```lean4\nbefore\n```\n**FINAL ANSWER**```lean4\nafter\n```", "after"),
        ("no fence at all", "no fence at all"),
        ("```lean4\ntheorem x (h : y := 2) : 1 = 1 := by rfl\n```", "2) : 1 = 1 := by rfl"),
        ("", ""),
    ],
)
def test_the_published_extraction(said: str, proof: str) -> None:
    """NeMo-Skills' rule is followed including its quirk: the first ``:=`` ends the statement."""
    assert published_proof(said) == proof


def test_the_block_of_our_rule() -> None:
    """The last Lean block is used, even before a block in another language; lemmas stay."""
    said = "```lean\na\n```\ntext\n```lean4\nlemma b : True := trivial\n```\n```text\nc\n```"
    assert strict_block(said) == "lemma b : True := trivial\n"
    assert strict_block("only\n```\ncode\n```") == "code\n"
    assert strict_block("no fence") == "no fence"


def test_the_statement_comes_before_the_models_text() -> None:
    """The order is: header, statement with sorry, the model's theorem, our check."""
    block = f"import Mathlib\n\nopen Nat\n\n{STATEMENT.text}  omega\n"
    file = checked_file(STATEMENT, declared(STATEMENT, block), "abc")
    assert file.text == (
        "import Mathlib\n\nopen Nat\n\n"
        "theorem _root_._tutti_given_abc (a : Nat) (h : 2 < a) : 1 < a := by\n  sorry\n\n"
        "theorem two_lt (a : Nat) (h : 2 < a) : 1 < a := by\n  omega\n\n"
        "theorem _root_.tutti_check_abc : type_of% @_root_._tutti_given_abc := @_root_.two_lt\n"
        "#print axioms _root_.tutti_check_abc\n"
    )
    lines = file.text.splitlines()
    assert [lines[number - 1] for number in file.given][1] == "  sorry"
    assert lines[file.axioms_line - 1].startswith("#print axioms")


@pytest.mark.parametrize(
    "block",
    [
        "by\n  omega",
        "  omega\n",
        ":= by\n    omega",
        "-- theorem two_lt is easy\nomega",
        "example (a : Nat) (h : 2 < a) : 1 < a := by\n  omega",
    ],
)
def test_a_proof_without_its_statement_gets_it(block: str) -> None:
    text = declared(STATEMENT, block)
    assert re.match(r"(-- .*\n)?theorem two_lt \(a : Nat\) \(h : 2 < a\) : 1 < a := by\n", text)
    assert text.rstrip().endswith("\n  omega") and text.count("omega") == 1


def test_definitions_are_not_declared_twice() -> None:
    """The statement's definitions occur once for any spacing by the model; the name has the
    namespace that they open."""
    assert DEFINED.name == "two" and DEFINED.full_name == "Game.two" and DEFINED.kind == "theorem"
    block = (
        f"{DEFINED.definitions.replace('def start', 'def  start')}{DEFINED.theorem}  rfl\nend Game"
    )
    text = checked_file(DEFINED, declared(DEFINED, block), "abc").text
    assert text.count("def") == 1 and text.count("namespace") == 1 and "end Game" in text
    assert "@_root_.Game.two\n" in text
    closed = Statement("", "namespace A\nend A\ntheorem b : True := by\n")
    assert closed.full_name == "b"


def test_a_definition_is_completed() -> None:
    """ProofNet has tasks that are definitions, whose type is no proposition."""
    asked = Statement("", "def group (G : Type) : Unit := by\n")
    text = checked_file(asked, declared(asked, "  exact ()"), "abc").text
    assert "def _root_._tutti_given_abc (G : Type)" in text
    assert "noncomputable def _root_.tutti_check_abc : type_of%" in text


@pytest.mark.parametrize(
    ("code", "left"),
    [
        ("a -- b\nc", "a  \nc"),
        ("a /- b -/ c", "a   c"),
        ("a /- b /- c -/ d -/ e", "a /- b /- c -/ d -/ e"),
        ("/-/- x -/ run_cmd", "/-/- x -/ run_cmd"),
        ("/--/ -- -/ run_cmd", "/--/ -- -/ run_cmd"),
        ("/-- -- /-\n -/ run_cmd", "/-- -- /-\n -/ run_cmd"),
        ("/-- doc --/x", " x"),
        ("x/- -/run_cmd", "x run_cmd"),
        ('"--" x', '"--" x'),
        ("«--» x", "«--» x"),
        ("a -/ b", "a -/ b"),
        ("a /- never ends", "a  "),
    ],
)
def test_comments(code: str, left: str) -> None:
    assert without_comments(code) == left


@given(st.text(alphabet="-/ab \n"))
def test_what_stays_is_code(code: str) -> None:
    """Only spaces are added, and the order stays."""
    rest = iter(code)
    left = "".join(without_comments(code).split())
    assert all(any(sign == other for other in rest) for sign in left)


@pytest.mark.timeout(60)
def test_long_replies_take_no_time_without_end() -> None:
    """Open fences and long whitespace occur when a model repeats itself: linear work takes a
    second, quadratic work many minutes."""
    for text in (
        *("```lean4" + " " * 100_000, "```lean4" + "\n" * 100_000, "x" + "\n" * 100_000 + "x"),
        *("```lean4 x\n" * 10_000, "```a\n" * 20_000),
    ):
        published_proof(text)
        strict_block(text)


@given(st.lists(st.sampled_from(["```", "lean", "4", "\n", " ", "a", "``", "text"])))
def test_the_blocks_are_those_of_one_pattern(parts: list[str]) -> None:
    """The result equals that of the regular expressions, which take quadratic time."""
    said = "".join(parts)
    pattern = r"^[ \t]*```[ \t]*([\w+-]*)[^\n]*\n(.*?)^[ \t]*```[ \t]*$"
    assert _fenced(said) == re.findall(pattern, said, re.S | re.M)
    last = ""
    for language in ("lean4", "lean3", "lean", ""):
        blocks = re.findall(rf"```{language}\s*\n?(.*?)\n?```", said, re.S)
        if blocks:
            last = blocks[-1].strip()
            break
    rest = re.sub(r"^\s*```(?:lean4|lean3|lean)?\s*|\s*```\s*$", "", said).strip()
    assert _published_block(said) == (last or rest)
