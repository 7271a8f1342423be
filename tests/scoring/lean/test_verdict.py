"""Tests of verdicts on the output of a real Lean for our own files (`recorded`), and on forged
output."""

import json
from pathlib import Path

import pytest

from tutti.tasks.scoring.lean.compiler import Compilation
from tutti.tasks.scoring.lean.proof import CheckedFile
from tutti.tasks.scoring.lean.scorer import (
    messages_in,
    published_verdict,
    strict_verdict,
)

RECORDED = Path(__file__).parent / "recorded"
CHECK = "tutti_check_0f1e2d3c"
MODULE = "cannot use `#print axioms` in a `module`"


def recorded(name: str) -> str:
    return (RECORDED / name).read_text("utf-8")


def checked(name: str) -> CheckedFile:
    """Return the recorded file with the positions of our parts."""
    lines = recorded(f"{name}.lean").splitlines()
    given = next(at for at, line in enumerate(lines, 1) if "_given_" in line)
    sorry = next(at for at, line in enumerate(lines, 1) if line == "  sorry")
    printed = next(at for at, line in enumerate(lines, 1) if line.startswith("#print axioms"))
    return CheckedFile("\n".join(lines), range(given, sorry + 1), printed, CHECK)


def as_no_module(name: str, axioms: str) -> str:
    """Return the recorded output with the response to ``#print axioms`` for a file that is no
    module: its wording is Lean's, its place and format are those of the recorded message."""
    messages = [json.loads(line) for line in recorded(f"{name}.jsonl").splitlines()]
    for message in messages:
        if MODULE in message["data"]:
            message |= {"data": f"'{CHECK}' {axioms}", "severity": "information"}
    return "\n".join(map(json.dumps, messages))


@pytest.mark.parametrize("name", ["right", "definition"])
def test_a_right_proof(name: str) -> None:
    """The only error in the real Lean's messages is the one about modules."""
    file, said = checked(name), recorded(f"{name}.jsonl")
    errors = [each for each in messages_in(said) if each.severity == "error"]
    assert [MODULE in each.text for each in errors] == [True]
    assert [each.line in file.given for each in messages_in(said)].count(True) == 1
    for axioms in (
        "does not depend on any axioms",
        "depends on axioms: [propext]",
        "depends on axioms: [propext,\n Classical.choice, Quot.sound]",
    ):
        ran = Compilation("ok", as_no_module(name, axioms), "", 1.0)
        assert strict_verdict(file, ran).right


@pytest.mark.parametrize(
    ("axioms", "status"),
    [
        ("depends on axioms: [cheat]", "axioms"),
        ("depends on axioms: [propext, Lean.ofReduceBool]", "axioms"),
        ("depends on axioms: [propext, sorryAx]", "has_sorry"),
        ("depends on nothing", "unchecked"),
        ("does not depend on any axioms, really", "unchecked"),
    ],
)
def test_axioms(axioms: str, status: str) -> None:
    """Only the three standard axioms are allowed, in Lean's own format."""
    ran = Compilation("ok", as_no_module("right", axioms), "", 1.0)
    assert strict_verdict(checked("right"), ran).status == status


def test_wrong_proofs() -> None:
    """For each kind of message of a real Lean, the first error is shown by line."""
    verdict = strict_verdict(checked("wrong"), Compilation("error", recorded("wrong.jsonl"), "", 1))
    assert verdict.status == "failed" and verdict.why.startswith("line 5: omega could not prove")
    texts = {each.line: each.text for each in messages_in(recorded("wrong.jsonl"))}
    assert texts[23].startswith("Type mismatch") and "Unknown identifier" in texts[27]
    plain = published_verdict(Compilation("error", recorded("wrong.txt"), "", 1.0))
    assert plain.status == "failed" and "omega could not prove" in plain.why


def test_a_syntax_error() -> None:
    """The error is a real Lean's message at the model's line."""
    file = CheckedFile("", range(1, 3), 9, CHECK)
    verdict = strict_verdict(file, Compilation("error", recorded("syntax.jsonl"), "", 1.0))
    assert (verdict.status, verdict.why) == (
        "failed",
        "line 5: unexpected token ')'; expected command",
    )


def test_sorry_of_the_model() -> None:
    """A real warning at another line than the statement's counts as the model's; by the published
    rule any such warning does."""
    lines = recorded("wrong.jsonl").splitlines()
    warnings = [line for line in lines if "declaration uses" in line]
    assert [json.loads(line)["pos"]["line"] for line in warnings] == [1, 10]
    end = as_no_module("right", "does not depend on any axioms").splitlines()[-1]
    file = checked("right")
    given = warnings[0].replace('"line":1}', f'"line":{file.given.start}}}')
    assert strict_verdict(file, Compilation("ok", f"{given}\n{end}", "", 1.0)).right
    both = "\n".join([given, warnings[1], end])
    assert strict_verdict(file, Compilation("ok", both, "", 1.0)).status == "has_sorry"
    warned = next(each for each in recorded("wrong.txt").splitlines() if "`sorry`" in each)
    assert published_verdict(Compilation("ok", warned, "", 1.0)).status == "has_sorry"
    late = "x" * 1000 + warned  # beyond what NeMo-Skills' sandbox returns
    assert published_verdict(Compilation("ok", late, "", 1.0)).right


def test_a_forged_message_is_at_another_line() -> None:
    """``#print "…"`` prints the given text with Lean's own severity (recorded); only a message at
    our line counts."""
    forged = recorded("wrong.jsonl").splitlines()[-1]
    said = json.loads(forged)
    assert said["severity"] == "information" and said["pos"]["line"] == 31
    assert said["data"] == f"'{CHECK}' does not depend on any axioms"
    file = checked("right")
    assert strict_verdict(file, Compilation("ok", forged, "", 1.0)).status == "unchecked"
    end = as_no_module("right", "depends on axioms: [cheat]").splitlines()[-1]
    both = f"{forged}\n{end}"
    assert strict_verdict(file, Compilation("ok", both, "", 1.0)).status == "axioms"
    assert strict_verdict(file, Compilation("ok", f"{end}\n{end}", "", 1)).status == "unchecked"


def test_other_ends() -> None:
    """The cases are a time-out, a crash without a message, no output, and lines that are no
    messages."""
    file = checked("right")
    assert strict_verdict(file, Compilation("timeout", "", "", 60.0)).status == "timeout"
    assert published_verdict(Compilation("timeout", "", "", 30.0)).status == "timeout"
    killed = strict_verdict(file, Compilation("killed", "", "killed: 17000 MiB", 1.0))
    assert (killed.status, killed.why) == ("failed", "killed: 17000 MiB")
    assert strict_verdict(file, Compilation("ok", "", "", 1.0)).status == "unchecked"
    junk = 'plain\n{"severity": 1}\n{"data": []}\n{broken\n{"severity":"error","data":"x","pos":3}'
    assert list(messages_in(junk)) == []


def test_a_message_is_a_line_by_its_line_feed_only() -> None:
    """Other line ends in a message's text do not end it; a number that is too large is no
    message."""
    text = 'a\u2028{"severity":"error","data":"b","pos":{"line":1}}'
    line = json.dumps({"severity": "warning", "data": text}, ensure_ascii=False)
    huge = '{"severity":"error","data":"b","pos":{"line":1e999}}'
    (message,) = messages_in(f"{line}\n{huge}\n")
    assert message.text == text
