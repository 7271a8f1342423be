"""Night files: suites measured one after the other on a schedule, and their required results.

A night file has `stages`; a plain suite is a night of one stage. A `Night` names the sweeps of one
date, so that each night measures anew.
"""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim
from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from tutti.tasks.platform import Document, Strict, read_document
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
    def judged_by(self) -> tuple[Gate, ...]:
        """The gates that determine its verdict."""
        return self.gates or self.suite.report.gates or DEFAULT_GATES


class NightFile(Strict):
    """The keys of a night file."""

    name: str = Field(
        "nightly", pattern=r"^[a-z0-9][a-z0-9-]*$", description="what its nights are called"
    )
    schedule: Annotated[str | None, AfterValidator(check_cron)] = Field(
        None, description="cron, at most one night a date: 0 2 * * *; none: only by hand"
    )
    timezone: str = Field("UTC", description="whose hours and dates are meant: Europe/Berlin")
    budget: Budget = Field(
        Budget(), description="of a run; when it is spent the night is not whole, and inconclusive"
    )
    catch_up: bool = Field(
        False, description="measure the night before first, if it was missed or is not whole"
    )
    stages: dict[Annotated[str, Field(pattern=r"^[a-z0-9-]+$")], Stage] = Field(
        min_length=1, description="in their order, by names of small letters, digits and '-'"
    )

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("no such time zone") from None
        return name

    def stops(self, stage: str) -> bool:
        stops = self.stages[stage].stops
        return stage == SMOKE if stops is None else stops

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

    name: str  # the file's
    date: date

    @property
    def label(self) -> str:
        """``nightly-2026-11-21``."""
        return f"{self.name}-{self.date.isoformat()}"

    def suite(self, file: NightFile, stage: str) -> Suite:
        name = self.label if len(file.stages) == 1 else f"{self.label}-{stage}"
        return file.stages[stage].suite.model_copy(update={"name": name})


def read_night(path: Path) -> NightFile:
    """Read a night file, or a suite as a night of one stage. Raises SuiteError."""
    if is_night(path):
        document = read_document(path, SuiteError)
    else:
        suite = read_suite(path)
        content: dict[str, Any] = {"name": suite.name, "schedule": suite.schedule}
        content |= {"budget": suite.budget, "stages": {suite.name: {"suite": suite}}}
        document = Document(path, content, {}, SuiteError)
    return document.check(NightFile, {"folder": path.parent})


def is_night(path: Path) -> bool:
    try:
        content = read_document(path, SuiteError).content
    except (FileNotFoundError, SuiteError):
        return False  # `read_suite` reports it
    return isinstance(content, dict) and "stages" in content
