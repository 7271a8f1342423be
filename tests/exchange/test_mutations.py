"""Tests of every field of a valid file of every format set to null, left out, or of another type.

The result is an import or an issue with a name: never a traceback, and never "other imports enter
the same attempts", which only another import can cause.
"""

import dataclasses
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tests.exchange import (
    test_atif,
    test_lm_eval,
    test_mini_swe_agent,
    test_nemo_skills,
    test_swe_bench,
    test_tau2,
    test_terminal_bench,
    test_thunderagent,
    test_verifiers,
)
from tests.exchange.imported import (
    DROP,
    Record,
    changed,
    paths_of,
    write_json,
    write_lines,
)
from tests.exchange.test_load import trial
from tutti import storage
from tutti.tasks.exchange import EXPORTERS, IMPORTERS
from tutti.tasks.exchange.base.imported import ImportedAttempt, ImportedItem, ImportIssue
from tutti.tasks.exchange.loader import load

pytest.importorskip("inspect_ai.log")

VALUES: list[Any] = [DROP, None, "x", "\0", -1, 2**70, True, [1], {"a": 1}]
Written = Callable[[Path, list[Record]], Path]
"""Writes records of a format into a folder; the path to import."""


def lines(name: str, **beside: Record) -> Written:
    """Return a writer of a JSON Lines file with documents beside it."""

    def write(folder: Path, records: list[Record]) -> Path:
        for other, content in beside.items():
            write_json(folder / f"{other}.json", content)
        write_lines(folder / name, records)
        return folder

    return write


def documents(name: str) -> Written:
    """Return a writer of a file for each record."""

    def write(folder: Path, records: list[Record]) -> Path:
        for place, record in enumerate(records):
            write_json(folder / str(place) / name, record)
        return folder

    return write


def inside(holder: Callable[[list[Record]], Record], name: str = "run.json") -> Written:
    """Return a writer of one document that contains the records."""
    return lambda folder, records: write_json(folder / name, holder(records))


def harbor(folder: Path, records: list[Record]) -> Path:
    """Write a job with a folder for each result."""
    return test_atif.job(folder, **{f"t{place}": each for place, each in enumerate(records)})


def terminal_bench(folder: Path, records: list[Record]) -> Path:
    """Write the results of a run."""
    return test_terminal_bench.a_run(folder, *records)


def ours(folder: Path, records: list[Record]) -> Path:
    """Write trajectories in the format of tutti's export."""
    return documents("trajectory.json")(folder, records)


LOG = "log.eval"


def our_log() -> dict[str, Record]:
    """Return the documents of an Inspect log written by tutti's own exporter, by name."""
    with tempfile.TemporaryDirectory() as folder:
        (path,) = EXPORTERS["inspect"](iter([trial(1)]), Path(folder))
        with ZipFile(path) as archive:
            return {name: json.loads(archive.read(name)) for name in archive.namelist()}


def of_log(mutated: str) -> Written:
    """Return a writer of a log in which the record replaces the document whose name begins with
    `mutated`."""

    def write(folder: Path, records: list[Record]) -> Path:
        folder.mkdir(parents=True)
        with ZipFile(folder / LOG, "w") as archive:
            for name, document in our_log().items():
                held = records[0] if name.startswith(mutated) else document
                archive.writestr(name, json.dumps(held))
        return folder / LOG

    return write


def of_ours(begins: str) -> Record:
    """Return the document of our log whose name begins with `begins`."""
    return next(document for name, document in our_log().items() if name.startswith(begins))


def thunderagent(folder: Path, records: list[Record]) -> Path:
    """Write a run's folder with a result for each record."""
    for place, record in enumerate(records):
        write_json(folder / test_thunderagent.NAME / f"q{place}.json", record)
    return folder / test_thunderagent.NAME


def usage_log(folder: Path, records: list[Record]) -> Path:
    """Write a run's folder with a log line for each record."""
    write_lines(folder / test_thunderagent.NAME / "orchestrator_usage.jsonl", records)
    return folder / test_thunderagent.NAME


RESULTS_OF_LM_EVAL = {f"results_{test_lm_eval.TIME}": test_lm_eval.RESULTS}
CASES: dict[str, tuple[str, Written, Record]] = {
    "atif": ("atif", documents("trajectory.json"), test_atif.TRAJECTORY),
    "atif of tutti": ("atif", ours, test_atif.OURS),
    "atif of Harbor": ("atif", harbor, test_atif.RESULT),
    "verifiers": (
        "verifiers",
        lines("results.jsonl", metadata=test_verifiers.METADATA),
        test_verifiers.rollout(),
    ),
    "verifiers' metadata": (
        "verifiers",
        lambda folder, records: lines("results.jsonl", metadata=records[0])(
            folder, [test_verifiers.rollout()]
        ),
        test_verifiers.METADATA,
    ),
    "verifiers' traces": (
        "verifiers",
        lines("traces.jsonl"),
        test_verifiers.episode(test_verifiers.trace()),
    ),
    "nemo-skills": (
        "nemo-skills",
        lines("eval-results/aime25/output-rs3.jsonl"),
        test_nemo_skills.row(),
    ),
    "nemo-skills with tools": (
        "nemo-skills",
        lines("eval-results/aime25/output-rs3.jsonl"),
        test_nemo_skills.with_tools(),
    ),
    "lm-eval": (
        "lm-eval",
        lines(f"samples_toy_{test_lm_eval.TIME}.jsonl", **RESULTS_OF_LM_EVAL),
        test_lm_eval.sample(),
    ),
    "lm-eval's choices": (
        "lm-eval",
        lines(f"samples_mc_{test_lm_eval.TIME}.jsonl", **RESULTS_OF_LM_EVAL),
        test_lm_eval.choice(),
    ),
    "lm-eval's results": (
        "lm-eval",
        lambda folder, records: lines(
            f"samples_toy_{test_lm_eval.TIME}.jsonl",
            **{f"results_{test_lm_eval.TIME}": records[0]},
        )(folder, [test_lm_eval.sample()]),
        test_lm_eval.RESULTS,
    ),
    "tau2": (
        "tau2",
        inside(lambda records: test_tau2.results(*records)),
        test_tau2.simulation(),
    ),
    "tau2's file": (
        "tau2",
        inside(lambda records: records[0]),
        test_tau2.results(test_tau2.simulation()),
    ),
    "thunderagent": ("thunderagent", thunderagent, test_thunderagent.result()),
    "thunderagent's log": ("thunderagent", usage_log, test_thunderagent.USAGE),
    "swe-bench": ("swe-bench", inside(lambda records: records[0]), test_swe_bench.REPORT),
    "mini-swe-agent": (
        "mini-swe-agent",
        documents("one.traj.json"),
        test_mini_swe_agent.trajectory(),
    ),
    "inspect's sample": ("inspect", of_log("samples/"), of_ours("samples/")),
    "inspect's header": ("inspect", of_log("header"), of_ours("header")),
    "terminal-bench": ("terminal-bench", terminal_bench, test_terminal_bench.trial_record("b")),
}
"""Format, how records are written, and a valid record."""


def apart(items: Iterable[ImportedItem], place: int) -> list[ImportedItem]:
    """Return imported items with those of each `place` in a separate cell, so that none is already
    known."""
    found = list(items)
    for each in found:
        if not isinstance(each, ImportIssue) and isinstance(each.cell.benchmark, str):
            cell = dataclasses.replace(each.cell, benchmark=f"{each.cell.benchmark} {place}")
            object.__setattr__(each, "cell", cell)
        if isinstance(each, ImportedAttempt) and isinstance(each.origin, str):
            each.origin = ""
    return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[storage.Catalog]:
    """Yield an empty store."""
    with storage.open_catalog(storage.Home(tmp_path / "store")) as catalog:
        yield catalog


def test_every_format_is_mutated() -> None:
    assert {format for format, _, _ in CASES.values()} == IMPORTERS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_mutated_file_is_imported_or_named(
    case: str, store: storage.Catalog, tmp_path: Path
) -> None:
    format, write, record = CASES[case]
    whole = load(store, IMPORTERS[format](write(tmp_path / "whole", [record]), "run"), format)
    assert whole.taken + whole.records and not whole.problems
    for place, value in enumerate(VALUES):
        items: list[ImportedItem] = []
        for number, path in enumerate(paths_of(record)):
            given = write(tmp_path / f"{place}-{number}", [changed(record, path, value)])
            mutated = apart(IMPORTERS[format](given, "run"), number + 1000 * place)
            assert mutated, (path, value)
            items += mutated
        report = load(store, items, format)
        attempts = sum(isinstance(item, ImportedAttempt) for item in items)
        refused = report.problems_total - sum(isinstance(item, ImportIssue) for item in items)
        assert report.taken + report.there + refused >= attempts, value


DUPLICATES = [
    case
    for case in CASES
    if case not in ("verifiers' metadata", "lm-eval's results") and not case.startswith("inspect")
]
"""Cases whose files can hold a record twice."""


@pytest.mark.parametrize("case", DUPLICATES)
def test_the_same_record_twice_is_taken_once_or_is_two(
    case: str, store: storage.Catalog, tmp_path: Path
) -> None:
    """A record that names its attempt is reported as a duplicate; others are numbered
    consecutively."""
    format, write, record = CASES[case]
    path = write(tmp_path / "twice", [record, record])
    items = list(IMPORTERS[format](path, "run"))
    report = load(store, items, format)
    assert report.taken + report.records >= 1
    attempts = sum(isinstance(item, ImportedAttempt) for item in items)
    assert report.taken + report.problems_total >= attempts
    again = load(store, IMPORTERS[format](path, "run"), format)
    assert (again.taken, again.records) == (0, 0)
