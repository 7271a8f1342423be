"""A score cannot be bought: no cheat passes, honest solutions do, nearly right ones do not.

Found by an attack: tests ran in the solution's own process, and 95 of 464 cheating programs passed.
"""

import asyncio
from collections.abc import Sequence

import pytest

from tests.scoring.cheats import CHEATS, TARGETS, Target, cheating
from tutti.tasks.sandbox import Sandbox, SandboxLimits
from tutti.tasks.scoring import Score, ScorerFailed, ScoringResources, Submission
from tutti.tasks.scoring.code import Code

AT_ONCE = 4
LIMITS = SandboxLimits(seconds=3.0)


async def scored(sandbox: Sandbox, target: Target, code: str) -> Score:
    """The score of a message that holds the code."""
    message = f"```python\n{code}\n```"
    return await Code().score(
        target.target, Submission(None, message), ScoringResources(sandbox=sandbox)
    )


async def passing(sandbox: Sandbox, pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Which of the pairs of a cheat and a target are scored as right."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(kind: str, name: str) -> bool:
        async with room:
            found = await scored(sandbox, TARGETS[name], cheating(kind, TARGETS[name]))
            return found.correct

    outcomes = await asyncio.gather(*(one(*pair) for pair in pairs))
    return [pair for pair, correct in zip(pairs, outcomes, strict=True) if correct]


@pytest.mark.parametrize("name", TARGETS)
async def test_honest_solutions_pass_and_mutants_fail(sandbox: Sandbox, name: str) -> None:
    """With helpers of the prompt, objects, errors, arguments that are changed, calls back."""
    target = TARGETS[name]
    honest = await scored(sandbox, target, target.honest)
    assert honest.correct, honest.detail
    mutant = await scored(sandbox, target, target.mutant)
    assert not mutant.correct and mutant.detail["status"] == "error", mutant.detail


@pytest.mark.parametrize("pair", [("names_everything", "executed"), ("silent_end", "every")])
async def test_what_was_bought_once(sandbox: Sandbox, pair: tuple[str, str]) -> None:
    """`exec` that the solution gave to the tests; the end of an iteration inside `map`."""
    assert await passing(Sandbox(sandbox.level, LIMITS), [pair]) == []


@pytest.mark.slow
async def test_no_cheat_passes(sandbox: Sandbox) -> None:
    """Each on a target of its own; all of them on all targets with the e2e tests."""
    names = list(TARGETS)
    pairs = [(kind, names[place % len(names)]) for place, kind in enumerate(CHEATS)]
    assert await passing(Sandbox(sandbox.level, LIMITS), pairs) == []


@pytest.mark.e2e
@pytest.mark.parametrize("name", TARGETS)
async def test_no_cheat_passes_any_target(sandbox: Sandbox, name: str) -> None:
    """Some 700 programs."""
    pairs = [(kind, name) for kind in CHEATS]
    assert await passing(Sandbox(sandbox.level, LIMITS), pairs) == []


async def test_an_argument_that_cannot_be_passed_is_nobodys_fault(sandbox: Sandbox) -> None:
    """Tests with classes of their own need the solution beside them: said, not scored as wrong."""
    tests = "class Mine:\n    pass\n\nassert f(Mine()) == 1"
    target = Target({"tests": tests, "entry_point": "f"}, "", "")
    with pytest.raises(ScorerFailed, match="Mine"):
        await scored(sandbox, target, "def f(x): return 1")


@pytest.mark.parametrize("made", ["Mine()", "lambda: 0", "f"])
async def test_a_solution_cannot_choose_what_the_tests_pass(sandbox: Sandbox, made: str) -> None:
    """A method that the right value has takes any argument; with an object instead, or with the
    function itself, the solution is wrong, not the tests."""
    target = Target({"tests": "assert f(1).isdisjoint(iter([2]))", "entry_point": "f"}, "", "")
    assert (await scored(sandbox, target, "def f(x): return {x}")).correct
    code = "class Mine:\n    def __getattr__(self, name): return f\n\n"
    code += f"def f(*x): return {made}\nf.isdisjoint = f"
    assert not (await scored(sandbox, target, code)).correct


async def test_tests_that_cannot_be_read_are_nobodys_fault(sandbox: Sandbox) -> None:
    """A benchmark's own mistake is a scorer's error."""
    for tests in ("assert f(", "import nonsense_module\nassert f(1) == 1"):
        target = Target({"tests": tests, "entry_point": "f"}, "", "")
        if "import" in tests:
            assert not (await scored(sandbox, target, "def f(x): return 1")).correct
            continue
        with pytest.raises(ScorerFailed, match="cannot be run"):
            await scored(sandbox, target, "def f(x): return 1")


async def test_what_goes_over_the_wire_comes_back_the_same(sandbox: Sandbox) -> None:
    """Every plain type, to the solution and back."""
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
    found = await scored(sandbox, target, "def same(x):\n    return x")
    assert found.correct, found.detail
