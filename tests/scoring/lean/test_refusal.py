"""Tests of the constructs that our rule refuses or allows in a proof."""

import pytest

from tutti.tasks.scoring.lean.proof import refusal


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        ("axiom cheat : False", "axiom"),
        ('run_cmd Lean.logInfo m!"x"', "run_cmd"),
        ("theorem x : a := by run_tac foo", "run_tac"),
        ("def x := (by_elab return y)", "by_elab"),
        ("  native_decide", "native_decide"),
        ("  decide +native", "+native"),
        ('#eval println "x"', "println"),
        ("#eval! f", "#eval!"),
        ("#guard_msgs in", "#guard_msgs"),
        ("#exit", "#exit"),
        ('local notation "x" => y', "notation"),
        ("macro_rules | `(tactic| foo) => `(tactic| bar)", "macro_rules"),
        ('local infixl:65 " + " => f', "infixl"),
        ("set_option debug.skipKernelTC true", "set_option debug.skipKernelTC"),
        ("set_option «debug».skipKernelTC true", "set_option «debug».skipKernelTC"),
        ("set_option warn.sorry false in", "set_option warn.sorry"),
        ("@[implemented_by f] def x := 1", "implemented_by"),
        ("@[simp, tactic foo] def x := 1", "attribute tactic"),
        ("attribute [local command_elab] x", "attribute command_elab"),
        ("@[simp (x := [1]), init] def x := 1", "attribute (x"),
        ("variable [Fact False]", "variable"),  # our check would get it as a hypothesis
        ("include h", "include"),
        ("def f : Lean.Elab.Tactic.TacticM Unit := pure ()", "Lean"),
        ("open IO Process in", "IO"),
        ("linarith (config := {preprocessors := [x]})", "preprocessors"),
        ('have := include_str "Proof.lean"', "include_str"),
        ("set_option pp.all true in", "set_option pp.all"),
        ("initialize x : Nat ← pure 1", "initialize"),
        ('-- a "\nrun_cmd x', "run_cmd"),
        ('s!"{run_cmd}"', "run_cmd"),
        ("5.run_cmd", "run_cmd"),
        ("(x)run_cmd y", "run_cmd"),
        ("x/- -/run_cmd y", "run_cmd"),
        ("unsafe def x := 1", "unsafe"),
        ("variable [h : Fact False]", "variable"),
        ('set_option/-"-/debug.skipKernelTC true', "set_option "),
        ('attribute/-"-/[term_elab foo] bar', "attribute /"),
        ("/-/- x -/ run_cmd y", "run_cmd"),
        # With a text in it, comments stay in the code: one can hold the end of a list.
        ('def t := "t"\n@[simp --]\n, term_elab foo] def x := 1', "attribute --"),
        ('def t := "t"\n@[simp --]\n, export foo] def x := 1', "attribute --"),
        ('def t := "t"\nattribute --simp]\n[term_elab foo] x', "attribute --"),
        ('def t := "t"\n@[simp/-]-/, term_elab foo] def x := 1', "attribute simp/"),
        ('@[simp "]", term_elab foo] def x := 1', 'attribute "'),
        ("@[simp «]», term_elab foo] def x := 1", "attribute «"),
        ("@[simp --]\n, term_elab foo] def x := 1", "attribute term_elab"),
        # Where Lean's own words end: after a number, and after signs that Python takes for letters.
        ("def x := 5run_cmd y", "run_cmd"),
        ("def x := fᵒᵖrun_cmd y", "run_cmd"),
        ("def x := f ∘ₗIO.y", "IO"),
        ("def x := 5attribute [term_elab foo] y", "attribute term_elab"),
        ("def x := 5set_option debug.skipKernelTC true", "set_option debug.skipKernelTC"),
        ("/-- -- /-\n -/ run_cmd y", "run_cmd"),
    ],
)
def test_refused(code: str, refused: str) -> None:
    """Code that runs while Lean compiles, new axioms, and unlisted options and attributes are
    refused."""
    assert refusal(code) == refused


@pytest.mark.parametrize(
    "code",
    [
        "-- by the axiom of choice, in this notation\n/- unsafe macro -/ theorem x : a := by simp",
        "set_option maxHeartbeats 400000 in\nset_option linter.unusedVariables false",
        "@[simp] lemma x : a = b := rfl\nattribute [local simp] foo",
        '@[simp] -- a "text"\nlemma x : a = b := rfl\nattribute [-simp] foo -- [y]',
        "@[local instance 100] def y := 1",
        "theorem x (h_axiom : a) (elab' : b) : c := by exact List.prefix_append _ _",
        "have : #s = 3 := by decide\nsimp only [Nat.reduceMul]",
        "instance : Fact p := ⟨h⟩\nopen scoped BigOperators in\n#check x",
    ],
)
def test_a_proof_may(code: str) -> None:
    assert refusal(code) is None
