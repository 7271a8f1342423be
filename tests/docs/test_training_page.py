"""Tests of docs/training.md and the shipped jobs: files are valid, queries run, and no field is
missing."""

import re
import shlex
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from tests.docs.test_examples import commands
from tests.training.sets.recorded import Attempt, enter
from tutti.flows.train_set import SOLVED
from tutti.storage import Home, commit, open_catalog, query
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.serving.registry.models import read_registry
from tutti.tasks.sweeps.spec.suite import Suite
from tutti.tasks.training import TrainingData, TrainJob
from tutti.tasks.training.jobs.settings import BatchSettings, LoraSettings, OptimizerSettings
from tutti.tasks.training.objectives import OBJECTIVES
from tutti.tasks.training.plans import read_any_job
from tutti.tasks.training.sets import build, chosen, guards

PAGE = (PROJECT / "docs" / "training.md").read_text()
BLOCKS: list[dict[str, Any]] = [
    yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
]
JOBS = sorted((PROJECT / "deployments" / "training").glob("*.yaml"))


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_a_shipped_job_is_one(path: Path) -> None:
    """A job is named as its file, its base is an entry of a shipped registry, and the table of jobs
    lists it."""
    job = read_any_job(path)
    assert job.name == path.stem
    own = {"epo-negotiation": "strategist"}  # an entry that docs/negotiation.md makes
    registries = (PROJECT / "deployments").glob("models*.yaml")
    shipped = {name for registry in registries for name in read_registry(registry)}
    assert job.base in {*shipped, own.get(job.name)}
    assert f"| `{job.name}` |" in PAGE


def test_the_registries_and_suites_read(tmp_path: Path) -> None:
    registries = [block for block in BLOCKS if "models" in block]
    for block in registries:
        (tmp_path / "models.yaml").write_text(yaml.safe_dump(block))
        read_registry(tmp_path / "models.yaml")
    suites = [Suite.model_validate(block) for block in BLOCKS if "tasks" in block]
    assert (len(registries), len(suites)) == (2, 2)
    assert {suite.data.split for suite in suites} == {None, "train"}


def test_the_job_shows_every_field() -> None:
    (block,) = [block for block in BLOCKS if "base" in block]
    job = TrainJob.model_validate(block)
    groups: list[tuple[type[BaseModel], Any]] = [
        (TrainJob, block),
        (TrainingData, block["data"] | {"query": 0, "file": "# file: "}),
        (LoraSettings, block["lora"]),
        (OptimizerSettings, block["optimizer"]),
        (BatchSettings, block["batch"]),
    ]
    for model, shown in groups:
        assert model.model_fields.keys() <= shown.keys(), model.__name__
    assert job.optimizer == OptimizerSettings(), "the defaults"


def test_the_table_of_objectives_is_whole() -> None:
    """The table names each setting."""
    rows = re.findall(r"(?m)^\| `(\w+)` \| [^|]+ \| [^|]+ \| [^|]*\|$", PAGE)
    assert set(rows) == set(OBJECTIVES)
    for settings in OBJECTIVES.values():
        for each in fields(settings) if settings else ():
            assert f"`{each.name}`" in PAGE


def test_every_reason_is_explained() -> None:
    reasons = [chosen.PARTNER, chosen.SEVERAL, chosen.TWO_TASKS, chosen.TURNS]
    source = "".join(Path(module.__file__ or "").read_text() for module in (guards, build, chosen))
    before = r"(?:return|why =|reasons\[each.attempt_id\] =)"
    reasons += re.findall(before + r' "([a-z ]+)"', source)
    reasons += [chosen.UNRECORDED, chosen.CUT, build.OTHER_TOKENS]
    assert len(reasons) >= 9, reasons
    assert [reason for reason in reasons if f"`{reason}`" not in PAGE] == []


def queries() -> list[str]:
    found = []
    for page, command in commands():
        words = shlex.split(command, comments=True)
        if page == "training.md" and "--from" in words:
            found.append(words[words.index("--from") + 1])
    return [*found, *(str(block["data"]["from"]) for block in BLOCKS if "base" in block)]


def test_each_query_gives_what_an_objective_reads(tmp_path: Path) -> None:
    home = Home(tmp_path / "store")
    with open_catalog(home) as catalog:
        names = {"good": True, "bad": False}
        more = {"model": "pocket", "steps": 2}
        enter(catalog, [Attempt(name, more=more | {"correct": c}) for name, c in names.items()])
    found = [query(sql, home) for sql in queries()]
    assert {"attempt_id": "good"} in found[0]
    assert [{"chosen": "good", "rejected": "bad"}] in found, found
    assert [{"attempt_id": "good", "weight": 0.5}] in found
    assert len(found) == 4 and all(len(rows) == 1 for rows in found)


def test_each_query_reads_the_newest_verdict(tmp_path: Path) -> None:
    """This covers the queries of this page, of the shipped jobs and of the flow: if `tutti score`
    reverses the verdicts, the other attempts are selected for training."""
    jobs = [job for job in map(read_any_job, JOBS) if isinstance(job, TrainJob)]
    every = [*queries(), *(str(job.data.query) for job in (SOLVED, *jobs))]
    home = Home(tmp_path / "store")
    with open_catalog(home) as catalog:
        for model in ("pocket", "gpt-4o"):
            cell = {"cell_id": f"cell:{model}"}
            more = cell | {"model": model, "steps": 2}
            own = {f"right before, {model}": True, f"right now, {model}": False}
            enter(catalog, [Attempt(name, more=more | {"correct": c}) for name, c in own.items()])
            by = cell | {"scorer": "people", "scored_at": datetime(2026, 11, 24, tzinfo=UTC)}
            again = [by | {"attempt_id": name, "correct": not c} for name, c in own.items()]
            commit(catalog, {"scores": again})
    rows = [row for sql in every for row in query(sql, home)]
    named = [str(row["chosen" if "chosen" in row else "attempt_id"]) for row in rows]
    assert len(every) == 8 and len(named) >= 8
    assert {name.split(",")[0] for name in named} == {"right now"}
