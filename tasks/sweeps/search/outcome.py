"""Search one policy's highest concurrency, and say what came of it: as JSON, as rows of a table.

In: objectives, and who measures a level. Out: the answer with its probes, in values and words.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tutti.tasks.reporting import ABSENT, rate, seconds, share, span
from tutti.tasks.sweeps.search.search import (
    Objectives,
    Outcome,
    Probe,
    Search,
    judge_probe,
    out_of_order,
)

Measure = Callable[[str, int, int, float], Awaitable[Probe | str]]
"""Measures a policy at a level, so many times, those before included; a cell that surely is above
the limit (seconds) may end early. Or says why the level could not be measured whole."""


@dataclass(frozen=True)
class SearchOutcome:
    """The answer of one policy."""

    policy: str
    concurrency: int | None
    """None where not even the lowest level meets the objectives, or a probe could not be ended."""
    sure: bool
    """Whether intervals decided it."""
    said: str
    """The answer in words."""
    probes: tuple[Probe, ...]
    """In the order they were measured; the last state of each level."""
    outcomes: Mapping[int, Outcome]
    notes: tuple[str, ...]
    is_whole: bool = True
    """Whether every level that was probed was measured whole."""

    @property
    def best(self) -> Probe | None:
        """What was measured at the answer."""
        return next((each for each in self.probes if each.level == self.concurrency), None)


async def find_highest(
    policy: str, lowest: int, objectives: Objectives, measure: Measure
) -> SearchOutcome:
    """Probe level after level until the answer is found, or a level could not be measured."""
    asked = objectives
    search = Search(lowest, max(lowest, asked.highest), asked.resolution, asked.times)
    probes: dict[int, tuple[Probe, Outcome]] = {}
    while (level := search.next()) is not None:
        probe = await measure(policy, level, search.times(level) + 1, asked.step_latency_p95)
        if isinstance(probe, str):
            return _found(policy, search, asked, probes, f"broken off at {level}: {probe}")
        outcome = judge_probe(probe, asked)
        search.tell(level, outcome)
        probes[level] = probe, outcome
    return _found(policy, search, asked, probes)


def _found(
    policy: str,
    search: Search,
    objectives: Objectives,
    probes: Mapping[int, tuple[Probe, Outcome]],
    broken_off: str | None = None,
) -> SearchOutcome:
    measured = tuple(probe for probe, _ in probes.values())
    outcomes = {level: outcome for level, (_, outcome) in probes.items()}
    notes = [
        f"at {level}: measured {search.times(level)} times, still {outcomes[level].reason}: "
        "decided by the values"
        for level in search.by_value
    ]
    notes += [
        f"at {probe.level}: the client may have been the bottleneck in {len(probe.doubts)} of "
        f"{len(probe.cells)} cells: {probe.doubts[0]}"
        for probe in measured
        if probe.doubts
    ]
    notes += out_of_order(measured)
    if broken_off is not None:
        return SearchOutcome(
            policy, None, False, broken_off, measured, outcomes, tuple(notes), is_whole=False
        )
    answer, sure = search.answer, search.is_sure
    said = str(answer)
    if answer is None:
        said = f"none, {min(outcomes)} is too high"
    elif answer >= objectives.highest:
        said = f"{answer}, the highest asked"
    said += "" if sure else ", by values alone"
    return SearchOutcome(policy, answer, sure, said, measured, outcomes, tuple(notes))


def lines_of(found: SearchOutcome) -> list[str]:
    """How each level was judged, and what speaks against the answer."""
    levels = [f"{each.level} {_word(found.outcomes[each.level])}" for each in found.probes]
    return [f"probed {', '.join(levels) or 'nothing'}", *found.notes]


def _word(outcome: Outcome) -> str:
    if outcome.word != "inconclusive":
        return outcome.word
    return "met by values" if outcome.by_value else "not met by values"


def content_of(found: SearchOutcome) -> dict[str, Any]:
    """As JSON: the answer with its figures, and every probe."""
    answer: dict[str, Any] = {"policy": found.policy, "concurrency": found.concurrency}
    answer |= {"sure": found.sure, "said": found.said, "notes": list(found.notes)}
    answer["whole"] = found.is_whole
    best = {} if found.best is None else _figures(found.best)
    return answer | best | {"probes": [_content(found, each) for each in found.probes]}


def _content(found: SearchOutcome, probe: Probe) -> dict[str, Any]:
    outcome = found.outcomes[probe.level]
    content: dict[str, Any] = {"concurrency": probe.level, "cells": list(probe.cells)}
    content |= {"outcome": outcome.word, "by_value": outcome.by_value, "reason": outcome.reason}
    return content | _figures(probe)


def table_of(found: Sequence[SearchOutcome]) -> list[dict[str, str]]:
    """One row a policy, all of the same columns, as text."""
    return [_row(each) for each in found]


def _row(found: SearchOutcome) -> dict[str, str]:
    row = {"policy": found.policy, "highest": found.said}
    best = found.best
    if best is None:
        return row | dict.fromkeys(("p95, s", "accuracy", "steps/min"), ABSENT)
    latency, accuracy = best.latency, best.accuracy
    row["p95, s"] = _with(seconds(latency.value), span(seconds, latency.low, latency.high))
    row["accuracy"] = _with(share(accuracy.value), span(share, accuracy.low, accuracy.high))
    row["steps/min"] = _with(rate(best.rate.value), span(rate, best.rate.low, best.rate.high))
    return row


def _with(value: str, interval: str) -> str:
    return value if interval == ABSENT else f"{value} ({interval})"


def _figures(probe: Probe) -> dict[str, Any]:
    return {
        "step_latency_p95": probe.latency._asdict(),
        "accuracy": probe.accuracy._asdict(),
        "steps_per_min": probe.rate._asdict(),
    }
