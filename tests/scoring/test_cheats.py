"""Tests that a score cannot be obtained by cheating: no cheat passes, honest solutions do, nearly
correct ones do not.

This was an attack: tests ran in the solution's own process, and 95 of 464 cheating programs passed.
"""

import asyncio
import inspect
import json
from pathlib import Path

import pytest

from tests.scoring.cheats.honest import HONEST, Honest
from tests.scoring.cheats.judge import (
    AT_ONCE,
    LIMITS,
    accepted_proofs,
    passing,
    passing_queries,
    sample,
    scored,
    statement_programs,
)
from tests.scoring.cheats.programs import CHEATS, FAMILIES, cheating
from tests.scoring.cheats.statements import PROOFS, QUERIES
from tests.scoring.cheats.targets import TARGETS, Target
from tutti.tasks.sandbox import Sandbox
from tutti.tasks.scoring import ScorerFailed
from tutti.tasks.scoring.children import code_talk

FORGING = [kind for family in FAMILIES if family.startswith("wire") for kind in FAMILIES[family]]
CREDULOUS = """
import json
def ask(do, on, *arguments):
    said = {"do": do, "on": on, "arguments": arguments, "named": {"dict": []}}
    send(b"?" + json.dumps(said).encode())
    heard.append(receive().decode("utf-8", "replace"))
heard = []
try:
    ask("name", None, "add", "exec")
    ask("call", {"yours": 0}, [1], [2])
finally:
    send(b"!" + json.dumps(heard).encode())
"""
"""Tests that believe everything they hear, and tell it."""


@pytest.mark.parametrize("name", TARGETS)
async def test_honest_solutions_pass_and_mutants_fail(sandbox: Sandbox, name: str) -> None:
    """The solutions use helpers of the prompt, objects, errors, modified arguments and
    callbacks."""
    target = TARGETS[name]
    honest = await scored(sandbox, target.target, target.honest)
    assert honest.correct, honest.detail
    mutant = await scored(sandbox, target.target, target.mutant)
    assert not mutant.correct, mutant.detail
    assert mutant.detail["status"] in ("error", "wrong output"), mutant.detail


@pytest.mark.parametrize("pair", [("names_everything", "executed"), ("silent_end", "every")])
async def test_what_was_bought_once(sandbox: Sandbox, pair: tuple[str, str]) -> None:
    """The earlier cheats were an `exec` that the solution passed to the tests, and the end of an
    iteration inside `map`."""
    assert await passing(Sandbox(sandbox.level, LIMITS), [pair]) == []


@pytest.mark.slow
async def test_right_solutions_by_unusual_means_pass(sandbox: Sandbox) -> None:
    assert len(HONEST) >= 40
    wrong, room = {}, asyncio.Semaphore(AT_ONCE)

    async def one(name: str, honest: Honest) -> None:
        async with room:
            found = await scored(sandbox, honest.target, honest.code)
        if not found.correct:
            wrong[name] = found.detail

    await asyncio.gather(*(one(name, honest) for name, honest in HONEST.items()))
    assert wrong == {}


def test_the_list_is_long() -> None:
    """The tests score at least 800 programs with every kind of cheat."""
    programs = [program for name in TARGETS for program in sample(name)]
    assert {kind for kind, _ in programs} == set(CHEATS)
    assert len(CHEATS) + len(QUERIES) + len(PROOFS) >= 60
    assert len(programs) + len([*statement_programs()]) >= 800


@pytest.mark.slow
async def test_no_cheat_passes(sandbox: Sandbox) -> None:
    """Each cheat runs on its own target."""
    names = list(TARGETS)
    pairs = [(kind, names[place % len(names)]) for place, kind in enumerate(CHEATS)]
    assert await passing(Sandbox(sandbox.level, LIMITS), pairs) == []


@pytest.mark.e2e
@pytest.mark.parametrize("name", TARGETS)
async def test_no_cheat_passes_any_target(sandbox: Sandbox, name: str) -> None:
    """The test scores a sample of all programs; ``make cheats`` scores the whole product."""
    assert await passing(Sandbox(sandbox.level, LIMITS), sample(name)) == []


@pytest.mark.slow
async def test_no_query_passes(tmp_path: Path) -> None:
    assert await passing_queries(tmp_path) == []


async def test_no_proof_is_accepted() -> None:
    assert await accepted_proofs() == []


async def heard_of(sandbox: Sandbox, code: str) -> tuple[list[str] | None, str]:
    """Return what tests without checks receive from a solution, and its errors."""
    answerer = f"{inspect.getsource(code_talk)}\nanswer({code!r}, send, receive)\n"
    talk = await Sandbox(sandbox.level, LIMITS).talk(CREDULOUS, answerer)
    return (None if talk.word is None else json.loads(talk.word)), talk.errors


@pytest.mark.slow
async def test_every_forger_says_what_it_wants_to(sandbox: Sandbox) -> None:
    """A cheat that uses a removed name would fail for the wrong reason: with a traceback, or with
    an honest process's output."""
    honest, _ = await heard_of(sandbox, "def add(*a, **k): return 0")
    assert honest == ['{"value": [[{"mine": 0}], []]}', '{"value": 0}']
    rotten, room = {}, asyncio.Semaphore(AT_ONCE)

    async def hear(kind: str) -> None:
        async with room:
            heard, errors = await heard_of(sandbox, cheating(kind, TARGETS["number"]))
        if heard == honest or "Traceback" in errors:
            rotten[kind] = heard or errors

    await asyncio.gather(*map(hear, FORGING))
    assert rotten == {}


async def test_an_argument_that_cannot_be_passed_is_nobodys_fault(sandbox: Sandbox) -> None:
    """Tests with their own classes need the solution in their process; this is reported, not scored
    as wrong."""
    tests = "class Mine:\n    pass\n\nassert f(Mine()) == 1"
    target = Target({"tests": tests, "entry_point": "f"}, "", "")
    with pytest.raises(ScorerFailed, match="Mine"):
        await scored(sandbox, target.target, "def f(x): return 1")


@pytest.mark.parametrize("made", ["Mine()", "lambda: 0", "f"])
async def test_a_solution_cannot_choose_what_the_tests_pass(sandbox: Sandbox, made: str) -> None:
    """A method of the correct value accepts any argument; if the solution returns an object or the
    function itself instead, the solution is wrong, not the tests."""
    target = Target({"tests": "assert f(1).isdisjoint(iter([2]))", "entry_point": "f"}, "", "")
    assert (await scored(sandbox, target.target, "def f(x): return {x}")).correct
    code = "class Mine:\n    def __getattr__(self, name): return f\n\n"
    code += f"def f(*x): return {made}\nf.isdisjoint = f"
    assert not (await scored(sandbox, target.target, code)).correct


async def test_tests_that_cannot_be_read_are_nobodys_fault(sandbox: Sandbox) -> None:
    """A benchmark's own mistake is a scorer's error."""
    for tests in ("assert f(", "import nonsense_module\nassert f(1) == 1"):
        target = Target({"tests": tests, "entry_point": "f"}, "", "")
        if "import" in tests:
            assert not (await scored(sandbox, target.target, "def f(x): return 1")).correct
            continue
        with pytest.raises(ScorerFailed, match="cannot be run"):
            await scored(sandbox, target.target, "def f(x): return 1")


async def test_what_goes_over_the_wire_comes_back_the_same(sandbox: Sandbox) -> None:
    """Every plain type is transferred to the solution and back."""
    tests = """
from decimal import Decimal
from fractions import Fraction
for value in (None, True, 0, -1, 10**300, 0.1, float("inf"), 1e-320, 2 + 3j, "", "é\\ud800", b"\\0",
              [], [[1], [[]]], (), (1,), {}, {1: {"a": (2,)}, (1, 2): None}, set(), {1, (2, 3)},
              frozenset({1}), range(3), range(5, 1, -2), Decimal("1.10"), Fraction(1, 3)):
    assert same(value) == value and type(same(value)) is type(value), value
assert same(float("nan")) != same(float("nan"))
"""
    target = Target({"tests": tests, "entry_point": "same"}, "", "")
    found = await scored(sandbox, target.target, "def same(x):\n    return x")
    assert found.correct, found.detail
