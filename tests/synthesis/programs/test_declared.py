"""Tests that a program's declaration is completed from its toolkit, and refused if the two
differ."""

from typing import Any

import pytest

from tutti.tasks.synthesis.programs import PROGRAMS
from tutti.tasks.synthesis.programs.base.declared import Declared, WrongDeclaration
from tutti.tasks.synthesis.programs.base.desks import DeskProgram

CODE = """
def lend(db: Db, title: str, days: int = 14) -> Record:
    return db["loans"][title]

def price(db: Db, pages: list[str], factor: float) -> float:
    return len(pages) * factor

def loose(db: Db, title) -> Record:
    return db["loans"][title]
"""
LOANS: dict[str, Any] = {
    "tables": {"loans": ["title", {"days": {"kind": "integer", "least": 1}}, "{extra}"]},
    "parameters": {"title": "its title", "days": "how long", "pages": "all", "factor": "per page"},
}


def declared(**changed: Any) -> Declared:
    return Declared.model_validate(LOANS | changed).of_instance({"extra": "place"})


def test_kinds_and_parameters_are_those_of_the_functions() -> None:
    words = {"about": "Lend a book.", "returns": "loans.* more", "changes": "loans.days"}
    tools = {"lend": words, "price": "The price."}
    lend, price = declared(tools=tools).tool_specs(CODE)
    assert (lend.kind, lend.changes) == ("WRITE", ("loans.days",))
    assert lend.returns == ("title", "days", "place", "more")
    assert [(p.name, p.kind, p.optional) for p in lend.parameters] == [
        ("title", "text", False),
        ("days", "integer", True),
    ]
    assert (price.kind, price.about) == ("GENERIC", "The price.")
    assert [p.kind for p in price.parameters] == ["texts", "number"]
    (reading,) = declared(tools={"lend": "See a book."}).tool_specs(CODE)
    assert reading.kind == "READ"


def test_a_tool_may_have_its_own_words_for_a_parameter() -> None:
    own = {"title": {"about": "the old title", "kind": "date"}}
    (lend,) = declared(tools={"lend": {"about": "x", "parameters": own}}).tool_specs(CODE)
    assert (lend.parameters[0].about, lend.parameters[0].kind) == ("the old title", "date")


@pytest.mark.parametrize(
    ("tool", "parameters", "message"),
    [
        ("give", {}, "tools.give: the toolkit has no such function"),
        ("lend", {"title": "its title"}, "tools.lend: 'days' has no words or no kind"),
        ("loose", {"title": "its title"}, "tools.loose: 'title' has no words or no kind"),
    ],
)
def test_what_does_not_fit_is_refused(tool: str, parameters: dict[str, str], message: str) -> None:
    with pytest.raises(WrongDeclaration, match=message):
        declared(tools={tool: "x"}, parameters=parameters).tool_specs(CODE)


def test_rules_have_the_facts_of_the_instance() -> None:
    rules = {"place": "Only in {extra}.", "days": {"text": "Not long.", "function": "not_long"}}
    place, days = declared(rules=rules).rule_specs()
    assert (place.text, place.function, days.function) == ("Only in place.", None, "not_long")


@pytest.mark.parametrize("name", ("retail", "bank"))
def test_a_desk_has_words_for_each_intent_and_a_knob_up_to_all_tools(name: str) -> None:
    program = PROGRAMS[name]
    assert isinstance(program, DeskProgram)
    phrases, declared = program.phrases, program.declared
    assert program.knobs["tools"].most == len(declared.tools)
    assert phrases.intents.keys() == phrases.reasons.keys() == program.intents.keys()
    assert {each.ask for each in phrases.intents.values()} <= phrases.asks.keys()
    rules = {rule for each in phrases.intents.values() for rule in each.rules.split()}
    assert rules <= declared.rules.keys()
