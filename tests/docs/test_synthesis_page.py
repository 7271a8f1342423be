"""Tests that docs/synthesis.md names every gate in order, and every domain."""

import re

from tutti.tasks.platform.project import PROJECT
from tutti.tasks.synthesis import PROGRAMS
from tutti.tasks.synthesis.documents.gates import DOCUMENT_GATES
from tutti.tasks.synthesis.gating import GATES

PAGE = (PROJECT / "docs" / "synthesis.md").read_text()


def test_every_gate_is_there_in_order() -> None:
    table = PAGE.split("\n## Gates\n")[1]
    rows = re.findall(r"^\| `(\w+)` \| .+ \|$", table, re.MULTILINE)
    assert [name for name in rows if name in GATES] == list(GATES)


def test_every_gate_of_questions_is_there_in_order_with_what_it_asks() -> None:
    table = PAGE.split("| gate of questions |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE)
    assert rows == [(name, gate.about) for name, gate in DOCUMENT_GATES.items()]


def test_every_domain_is_there() -> None:
    for name in PROGRAMS:
        assert f"| `{name}` |" in PAGE
