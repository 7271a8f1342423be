"""Tests of independent solutions of a measured set: agreement with the golden one keeps a task,
agreement on another makes the golden answer doubtful, and no agreement makes the task unclear."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.synthesis.lending import Lending
from tests.synthesis.making.measured import Attempt, Call, enter, lending_set, verdicts
from tutti import storage
from tutti.tasks.synthesis.domains import DomainTask, changed_task, read_domain_folder
from tutti.tasks.synthesis.making.agreement import (
    GOLDEN,
    AgreementRequest,
    AgreementSource,
    Solution,
    agreed,
    solution,
)
from tutti.tasks.task_sets import NothingMade, make_set

RIGHT = Solution(GOLDEN, GOLDEN)


def extended(catalog: storage.Catalog, made: str, task: DomainTask, days: int) -> Call:
    """Return the call that extends the task's loan by `days`, with the toolkit's result."""
    (folder,) = catalog.home.artifact_folder(made).glob("lending-*")
    loan = dict(
        read_domain_folder(folder)[0].records["loans"][task.world.actions[1].arguments["loan_id"]]
    )
    loan["days"] += days
    return "extend_loan", {"loan_id": loan["loan_id"], "days": days}, loan


async def test_what_becomes_of_each_task(catalog: storage.Catalog) -> None:
    """Tasks have four attempts: correct ones; three with one other state; all different; only
    two."""
    made, (good, doubtful, scattered, rare, silent) = await lending_set(catalog, 5)
    right = [Attempt(good, "done", correct=True)] * 3 + [Attempt(good, "I cannot do that")]
    one_more = [
        Attempt(doubtful, f"{words} 99 days", [extended(catalog, made, doubtful, 1)])
        for words in ("Now it is", "You have", "It makes")
    ]
    other = [*one_more, Attempt(doubtful, "done", correct=True)]
    every = [
        Attempt(scattered, "as you wish", [extended(catalog, made, scattered, days)])
        for days in (1, 2, 3)
    ]
    every.append(Attempt(scattered, "no"))
    few = [Attempt(rare, "done", correct=True)] * 2 + [
        Attempt(rare, "done", correct=True, model="another")
    ] * 2
    wrong_words = [
        Attempt(
            silent, "it has 5 days", [extended(catalog, made, silent, int(silent.slots["days"]))]
        )
    ] * 4
    enter(catalog, [*right, *other, *every, *few, *wrong_words])
    kept = await make_set(
        AgreementSource(AgreementRequest(task_set=made, models=("m",)), catalog), catalog
    )
    found = verdicts(catalog, kept)
    assert {row["gate"] for row in found.values()} == {"agreement"}
    assert (found[good.task_id]["passed"], found[good.task_id]["measured"]) == (True, 0.75)
    why = found[doubtful.task_id]["reason"]
    assert why.startswith("the golden answer is doubtful: 3 of 4 attempts agree on the state ")
    assert why.endswith(" and the answer '99'")
    why = found[scattered.task_id]["reason"]
    assert why.startswith("no agreement: 4 solutions by 4 attempts, the most frequent 1 times, ")
    assert found[rare.task_id]["reason"] == "2 attempts on record; agreement needs 4"
    why = "the golden answer is doubtful: 4 of 4 attempts agree on the answer '5'"
    assert found[silent.task_id]["reason"] == why
    entry = catalog.artifact(kept)
    assert entry is not None and entry["detail"]["asked"]["least"] == 0.6
    assert (
        await make_set(
            AgreementSource(AgreementRequest(task_set=made, models=("m",)), catalog), catalog
        )
        == kept
    )


async def test_an_end_state_that_is_not_known_is_no_solution(catalog: storage.Catalog) -> None:
    """The attempt's calls return other results now: it agrees with no other, and the reason says
    so."""
    made, (task, other) = await lending_set(catalog, 2)
    name, arguments, loan = extended(catalog, made, task, 1)
    drifted = Attempt(task, "done", [(name, arguments, loan | {"days": 77})])
    enter(catalog, [drifted] * 4 + [Attempt(other, "done", correct=True)] * 4)
    found = verdicts(
        catalog, await make_set(AgreementSource(AgreementRequest(task_set=made), catalog), catalog)
    )
    why = found[task.task_id]["reason"]
    assert why.startswith(
        "0 attempts on record; agreement needs 4; an end state is not known: call 1"
    )


async def test_where_none_agrees_no_set_is_made(catalog: storage.Catalog) -> None:
    made, _ = await lending_set(catalog, 2)
    with pytest.raises(NothingMade, match=r"no task passes agreement; .* agreement needs 4"):
        await make_set(AgreementSource(AgreementRequest(task_set=made), catalog), catalog)


@given(st.lists(st.sampled_from("gabc"), min_size=2, max_size=9), st.floats(0.01, 1.0))
def test_a_verdict_is_of_the_largest_group(letters: list[str], least: float) -> None:
    """A task passes if the golden group is the largest and large enough, in any order."""
    solutions = [RIGHT if each == "g" else Solution(each, "") for each in letters]
    request = AgreementRequest(task_set="task_set:1", least=least, k=2)
    most = max(map(letters.count, letters))
    verdict = agreed(solutions, request)
    assert verdict.measured == most / len(letters)
    assert verdict.passed == (letters.count("g") == most and most / len(letters) >= least)
    assert agreed(solutions[::-1], request).passed == verdict.passed


def test_the_same_figures_in_other_words_are_one_solution() -> None:
    program = Lending()
    knobs = {name: each.value for name, each in program.knobs.items()}
    task = next(program.propose(program.build(Random(1), knobs), Random(1), knobs))
    task = changed_task(task, expected="h")
    told = task.slots["days"]
    one = solution(task, "h", ["Let me look.", f"With {told} more it is 1,250 days."])
    assert one == solution(task, "h", ["You have 1250 days now."]) == Solution(GOLDEN, "1250")
    assert solution(task, "h", [f"It is {task.world.communicate[0]} days."]) == RIGHT
    assert solution(task, "x", []) == Solution("x", "")
