"""Tests of MinHash: the estimate is close to the Jaccard index, identical in every process, and
100,000 tasks take linear time and little memory."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from random import Random
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.synthesis.example import EXAMPLE, EXTENDED, varied
from tests.synthesis.gating.lending import good_tasks, many_members
from tutti.tasks.synthesis.domains import Domain, DomainTask, changed_task
from tutti.tasks.synthesis.gating.duplicates import DomainFacts
from tutti.tasks.synthesis.gating.seen import (
    PERMUTATIONS,
    THRESHOLD,
    Fingerprint,
    Seen,
    hash64,
    min_hash,
)


def repeats(tasks: Iterable[tuple[Domain, DomainTask]], seen: Seen | None = None) -> Iterator[str]:
    """Yield for each task, in order, the id of the earlier one that it repeats, or ""."""
    seen = Seen() if seen is None else seen
    contexts: dict[int, DomainFacts] = {}
    for domain, task in tasks:
        fingerprint = contexts.setdefault(id(domain), DomainFacts(domain)).fingerprint(task)
        found = seen.find(fingerprint)
        if found is None:
            seen.add(fingerprint)
        yield "" if found is None else found.task_id


@settings(max_examples=settings().max_examples // 2)
@given(st.integers(0, 200), st.integers(0, 200), st.integers(1, 200), st.integers(0, 2**32))
def test_the_estimate_is_near_the_true_jaccard_index(
    left: int, right: int, both: int, seed: int
) -> None:
    name = f"{seed}-{{}}".format
    shared = {name(f"s{n}") for n in range(both)}
    one = shared | {name(f"l{n}") for n in range(left)}
    other = shared | {name(f"r{n}") for n in range(right)}
    estimate = float((min_hash(one) == min_hash(other)).mean())
    # The standard error is at most 0.045 at 128 permutations; six of them.
    assert abs(estimate - both / (left + right + both)) < 0.27


def test_the_estimates_have_no_bias() -> None:
    errors = []
    for number in range(200):
        one = {f"{number}-{n}" for n in range(60)}
        other = {f"{number}-{n}" for n in range(20, 80)}
        errors.append(float((min_hash(one) == min_hash(other)).mean()) - 0.5)
    assert abs(sum(errors) / len(errors)) < 0.015


def test_signatures_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "from tutti.tasks.synthesis.gating.seen import min_hash;"
        "print(min_hash({'a', 'b', 'c d'}).tolist())"
    )
    environ = {**os.environ, "PYTHONHASHSEED": "123"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == f"{min_hash({'a', 'b', 'c d'}).tolist()}\n", done.stderr


def test_many_tasks_of_one_template_are_found_in_linear_time() -> None:
    seen, spent = Seen(), []
    signature = min_hash({"a", "b"})
    tasks = [Fingerprint(f"t{n}", n, hash64(f"o{n}"), signature) for n in range(20_000)]
    for half in (tasks[:10_000], tasks[10_000:]):
        start = process_time()
        for task in half:
            assert seen.find(task) is None
            seen.add(task)
        spent.append(process_time() - start)
    assert len(seen) == 20_000 and spent[1] < 4 * spent[0] + 0.1


@pytest.mark.parametrize("shared", [0, PERMUTATIONS])
def test_similarity_decides_among_tasks_of_one_outcome(shared: int) -> None:
    seen = Seen()
    signature = min_hash({"a", "b"})
    other = signature.copy()
    other[shared:] += 1
    seen.add(Fingerprint("first", 1, 7, signature))
    found = seen.find(Fingerprint("second", 2, 7, other))
    assert (found is not None) == (shared / PERMUTATIONS >= THRESHOLD)


def test_no_two_good_tasks_are_duplicates_and_every_copy_is_found() -> None:
    domain = many_members()
    tasks = good_tasks(domain, Random(4))
    seen = Seen()
    assert set(repeats(((domain, task) for task in tasks), seen)) == {""}
    again = list(repeats(((domain, task) for task in tasks), seen))
    assert again == [task.task_id for task in tasks]


def test_the_same_words_in_another_instance_are_another_task() -> None:
    other = varied(EXAMPLE, lineage={"seed": 2})
    answer = changed_task(EXTENDED, communicate=("9",), sources=("members/M2",))
    assert list(repeats([(EXAMPLE, EXTENDED), (other, answer)])) == ["", ""]
    assert list(repeats([(EXAMPLE, EXTENDED), (EXAMPLE, answer)])) == ["", EXTENDED.task_id]
    assert list(repeats([(EXAMPLE, EXTENDED), (other, EXTENDED)])) == ["", EXTENDED.task_id]


def test_a_task_about_another_choice_is_another_task() -> None:
    loans = EXAMPLE.tables[1]
    chosen = loans.fields[2].model_copy(update={"one_of": ("lost", "late")})
    tables = (EXAMPLE.tables[0], loans.model_copy(update={"fields": (*loans.fields[:2], chosen)}))
    domain = varied(EXAMPLE, tables=tables)
    told = [
        EXTENDED.world.scenario.model_copy(
            update={"reason": f"How many of your books are {which}?"}
        )
        for which in ("lost", "late")
    ]
    asked = [changed_task(EXTENDED, scenario=each) for each in told]
    assert list(repeats((domain, each) for each in asked)) == ["", ""]
    open_loan = told[0].model_copy(update={"reason": "Say the number of your books."})
    general = changed_task(EXTENDED, scenario=open_loan)
    assert list(repeats((domain, each) for each in (asked[0], general))) == ["", asked[0].task_id]
