"""Night files: suites to measure one after the other on a schedule, and what each must reach.

In: YAML, a night file (it has `stages`) or a plain suite, which is a night of one stage. Out: a
`NightFile`; a `Night` of it names the sweeps of one date, so that each night measures anew.
"""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim
from pydantic import Field, ValidationInfo, field_validator

from tutti.tasks.config import Document, Strict, read_document
from tutti.tasks.sweeps import SuiteError
from tutti.tasks.sweeps.spec import (
    Budget,
    Gate,
    Suite,
    check_cron,
    read_suite,
)

SMOKE = "smoke"  # a stage of this name that fails ends the night, unless the file says otherwise
DEFAULT_GATES = (Gate(metric="score", margin=0.05),)


class Stage(Strict):
    """One suite of a night."""

    suite: Suite = Field(description="a suite's fields, or the name of a suite file beside this")
    gates: tuple[Gate, ...] = Field(
        (), description="what it must reach; else its suite's, else score no worse by 0.05"
    )
    stops: bool | None = Field(
        None, description="whether its failing ends the night; if left out, `smoke`'s does"
    )

    @field_validator("suite", mode="before")
    @classmethod
    def _of_a_file(cls, given: Any, info: ValidationInfo) -> Any:
        if not isinstance(given, str):
            return given
        name = given if given.endswith((".yaml", ".yml")) else f"{given}.yaml"
        return read_suite((info.context or {}).get("folder", Path()) / name)

    @property
    def asked(self) -> tuple[Gate, ...]:
        """The gates that it is judged by."""
        return self.gates or self.suite.report.gates or DEFAULT_GATES


class NightFile(Strict):
    """The file's keys."""

    name: str = Field(
        "nightly", pattern=r"^[a-z0-9][a-z0-9-]*$", description="what its nights are called"
    )
    schedule: str | None = Field(
        None, description="cron, at most one night a date: 0 2 * * *; none: only by hand"
    )
    timezone: str = Field("UTC", description="whose hours and dates are meant: Europe/Berlin")
    budget: Budget = Field(
        Budget(), description="of a run; when it is spent the night is not whole, and inconclusive"
    )
    catch_up: bool = Field(
        False, description="measure the night before first, if it was missed or is not whole"
    )
    stages: dict[str, Stage] = Field(min_length=1, description="in their order")

    @field_validator("schedule")
    @classmethod
    def _a_night_a_date(cls, cron: str | None) -> str | None:
        if cron is not None:
            check_cron(cron)
        return cron

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("no such time zone") from None
        return name

    @field_validator("stages")
    @classmethod
    def _named(cls, stages: dict[str, Stage]) -> dict[str, Stage]:
        for name in stages:
            if not name.replace("-", "").isalnum() or name != name.lower():
                raise ValueError(f"{name!r}: small letters, digits and '-'")
        return stages

    def stops(self, stage: str) -> bool:
        """Whether this stage's failing ends the night."""
        said = self.stages[stage].stops
        return stage == SMOKE if said is None else said

    def planned(self, at: datetime) -> datetime | None:
        """The latest planned time that is not after `at`, in the file's zone; None without one."""
        if self.schedule is None:
            return None
        after = at.astimezone(ZoneInfo(self.timezone)) + timedelta(minutes=1)
        found = CronSim(self.schedule, after.replace(second=0, microsecond=0), reverse=True)
        return next(found)


@dataclass(frozen=True)
class Night:
    """One date of a night file."""

    name: str
    """The file's."""
    date: date

    @property
    def label(self) -> str:
        """``nightly-2026-11-21``."""
        return f"{self.name}-{self.date.isoformat()}"

    def suite(self, file: NightFile, stage: str) -> Suite:
        """The stage's, under a name of this night's own."""
        name = self.label if len(file.stages) == 1 else f"{self.label}-{stage}"
        return file.stages[stage].suite.model_copy(update={"name": name})


def read_night(path: Path) -> NightFile:
    """Read and validate a night file, or a suite as a night of one stage. Raises SuiteError with
    file, line, field and value."""
    if is_night(path):
        document = read_document(path, SuiteError)
    else:
        document = Document(path, _of_one(read_suite(path)), {}, SuiteError)
    return document.check(NightFile, {"folder": path.parent})


def is_night(path: Path) -> bool:
    """Whether a file is a night's, rather than a suite's."""
    try:
        content = read_document(path, SuiteError).content
    except (FileNotFoundError, SuiteError):
        return False  # which `read_suite` tells best
    return isinstance(content, dict) and "stages" in content


def _of_one(suite: Suite) -> dict[str, Any]:
    stages = {suite.name: {"suite": suite}}
    kept = {"name": suite.name, "schedule": suite.schedule, "budget": suite.budget}
    return kept | {"stages": stages}
