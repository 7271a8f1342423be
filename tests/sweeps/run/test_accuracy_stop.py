"""Tests of ending decided cells: in the planned order, for any order of ends, without more false
alarms."""

import heapq
import time
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.tasks.scoring.statistics import ConfidenceSequence
from tutti.tasks.sweeps.run.early_stop import AccuracyStop

TASKS = [f"task-{n}" for n in range(200)]
HALF = dict.fromkeys(TASKS, 0.5)


def feed(watch: AccuracyStop, samples: list[tuple[str, int, float]]) -> int | None:
    """Return the number of samples that ended before the cell did, or None if it was not ended
    early."""
    for count, (task, trial, score) in enumerate(samples, start=1):
        watch.sample(task, trial, score)
        if watch.verdict() is not None:
            return count
    return None


def test_it_ends_where_look_ends_and_says_how() -> None:
    """All correct against one half gives better, after as many tasks as `ConfidenceSequence`
    needs."""
    watch = AccuracyStop(HALF, TASKS, 0.02)
    count = feed(watch, [(task, 0, 1.0) for task in TASKS])
    assert count is not None and count < 50
    looks = ConfidenceSequence(len(TASKS), 0.02)
    assert [looks.add(0.5).verdict for _ in range(count)] == [None] * (count - 1) + ["better"]
    said = watch.verdict()
    assert said is not None
    assert said.startswith(f"decided after {count} of 200 tasks: accuracy is better (difference +")
    watch.sample(TASKS[count], 0, 0.0)
    assert watch.verdict() == said, "said once, it stays"


@pytest.mark.parametrize(("score", "word"), [(0.0, "worse"), (0.5, "the same within ±0.1")])
def test_worse_and_the_same(score: float, word: str) -> None:
    watch = AccuracyStop(HALF, TASKS, 0.1)
    assert feed(watch, [(task, 0, score) for task in TASKS]) is not None
    assert f"accuracy is {word} (" in str(watch.verdict())


def test_what_ends_first_waits_for_its_turn() -> None:
    """Only the complete beginning of the plan counts."""
    watch = AccuracyStop(HALF, TASKS, 0.02)
    assert feed(watch, [(task, 0, 1.0) for task in TASKS[1:]]) is None
    watch.sample(TASKS[0], 0, 1.0)
    assert watch.verdict() is not None


def test_a_task_counts_with_all_its_trials() -> None:
    """Trials come in passes over the tasks; the mean covers all of them."""
    planned = TASKS * 2
    watch = AccuracyStop(HALF, planned, 0.02)
    first = [(task, 0, 1.0) for task in TASKS]
    assert feed(watch, first) is None
    assert feed(watch, [(task, 1, 0.0) for task in TASKS]) == feed(
        AccuracyStop(HALF, TASKS, 0.02), [(task, 0, 0.5) for task in TASKS]
    )
    again = AccuracyStop(HALF, planned, 0.02)
    assert feed(again, first + first) is None, "a trial told twice is one"
    assert feed(again, [(task, 1, 1.0) for task in TASKS]) is not None


def test_tasks_that_the_reference_lacks_are_left_out() -> None:
    """The scores of such tasks have no effect, even if they never end."""
    some = {task: 0.5 for task in TASKS[::2]}
    watch = AccuracyStop(some, TASKS, 0.02)
    assert feed(watch, [(task, 0, 1.0) for task in TASKS[::2]]) is not None
    assert feed(AccuracyStop(some, TASKS, 0.02), [(task, 0, 1.0) for task in TASKS[1::2]]) is None
    assert feed(AccuracyStop({}, TASKS, 0.02), [(task, 0, 1.0) for task in TASKS]) is None


def test_the_end_of_the_plan_is_no_early_end() -> None:
    """A cell whose last task decides has run completely and is not reported as ended early."""
    few = TASKS[:3]
    watch = AccuracyStop(dict.fromkeys(few, 0.5), few, 1.0)
    assert feed(watch, [(task, 0, 0.5) for task in few]) in (1, 2)
    watch = AccuracyStop({"one": 0.5}, ["one"], 1.0)
    assert feed(watch, [("one", 0, 0.5)]) is None


def test_scores_outside_0_to_1_are_not_judged() -> None:
    """The error bound holds for scores from 0 to 1; other scores are ignored without an error."""
    watch = AccuracyStop(HALF, TASKS, 0.02)
    assert feed(watch, [(task, 0, 7.0) for task in TASKS]) is None


def test_latencies_are_of_no_interest() -> None:
    """The watch implements the whole interface of a cell's watches; a negative margin is
    refused."""
    watch = AccuracyStop(HALF, TASKS, 0.02)
    watch.step(99.0)
    assert watch.verdict() is None
    with pytest.raises(ValueError, match="margin"):
        AccuracyStop(HALF, TASKS, -0.1)


@settings(max_examples=settings().max_examples // 2)
@given(st.randoms(use_true_random=False), st.integers(1, 3))
def test_the_order_of_ends_changes_nothing(random: Random, trials: int) -> None:
    """Any order in which samples end gives in the end the same result as the planned order."""
    few = TASKS[:30]
    scores = {(t, n): float(random.random() < 0.9) for t in few for n in range(trials)}
    samples = [(t, n, scores[t, n]) for n in range(trials) for t in few]
    planned = [t for _ in range(trials) for t in few]
    reference = dict.fromkeys(few, 0.2)
    in_order, shuffled = (AccuracyStop(reference, planned, 0.0) for _ in range(2))
    for each in samples:
        in_order.sample(*each)
    random.shuffle(samples)
    for each in samples:
        shuffled.sample(*each)
    assert in_order.verdict() == shuffled.verdict()


def test_watching_a_plan_of_10000_samples_is_quick() -> None:
    """The cost per sample is constant: under 1.5 s of CPU time in total (0.2 s on a quiet
    machine)."""
    many = [f"task-{n}" for n in range(10_000)]
    random = np.random.default_rng(0)
    reference = dict.fromkeys(many, 0.5)
    watch = AccuracyStop(reference, many, 0.0)
    began = time.process_time()
    for task, right in zip(many, random.random(10_000) < 0.5, strict=True):
        watch.sample(task, 0, float(right))
    assert time.process_time() - began < 1.5
    assert watch.verdict() is None


def test_slow_wrong_answers_raise_no_alarms() -> None:
    """Of 150 A/A cells of 40 sessions in which wrong answers take longer, at most 5 % are ended as
    better or worse; judged in the order of ends, far more would be."""
    alarms = naive = 0
    for run in range(150):
        random = np.random.default_rng(run)
        chances = dict(zip(TASKS[:100], random.beta(0.8, 0.8, 100), strict=True))
        before, right = ({t: float(random.random() < p) for t, p in chances.items()} for _ in "ab")
        ended = in_order_of_ends(right, random)
        watch = AccuracyStop(before, list(chances), 0.0)
        feed(watch, [(task, 0, right[task]) for task in ended])
        alarms += watch.verdict() is not None
        as_ended = AccuracyStop(before, ended, 0.0)
        feed(as_ended, [(task, 0, right[task]) for task in ended])
        naive += as_ended.verdict() is not None
    assert alarms <= 0.05 * 150 < naive


def in_order_of_ends(right: dict[str, float], random: np.random.Generator) -> list[str]:
    """Return tasks in the order of ends with 40 sessions, a wrong answer taking five times as
    long."""
    slots, ended = [0.0] * 40, []
    for task, is_right in right.items():
        begun = heapq.heappop(slots)
        takes = random.exponential(1.0 if is_right else 5.0)
        heapq.heappush(slots, begun + takes)
        ended.append((begun + takes, task))
    return [task for _, task in sorted(ended)]
