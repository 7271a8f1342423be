"""``tutti synth task_set:ID``: a further gate over a stored set, one a command.

In: the verb's flags. Out: the new set's id and what the gate dropped. The set that one gate made is
what the next one is given.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from tutti import storage
from tutti.errors import UsageError
from tutti.tasks import progress, synthesis, task_sets

OF_MEASURED, OF_JUDGED = ("k", "models"), ("usd", "calls")


@dataclass(frozen=True)
class TaskSetFilter:
    """What was asked of a stored set."""

    task_set: str
    pass_rate: str
    agreement: float | None
    judge: str
    flags: Mapping[str, Any]
    """--k, --model, --usd and --calls, as far as they were given."""

    def made(self, models: Path) -> dict[str, Any]:
        """Make the set; its id, counts and gates. Raises UsageError and what the gate raises."""
        asked = [bool(self.pass_rate), self.agreement is not None, bool(self.judge)]
        if sum(asked) != 1:
            raise UsageError(
                f"{self.task_set}: give one of --pass-rate, --agreement and --judge; the set that "
                "one makes is what the next is given"
            )
        unused = OF_MEASURED if self.judge else OF_JUDGED
        given = {name: value for name, value in self.flags.items() if value not in (None, ())}
        if odd := [name for name in unused if name in given]:
            whose = "--pass-rate and --agreement" if self.judge else "--judge"
            raise UsageError(f"{', '.join(odd)}: of {whose} only")
        with storage.open_catalog() as catalog:
            made = self._kept(catalog, {"task_set": self.task_set} | given, models)
            counts, gates = (
                synthesis.count_tasks(catalog.home, made),
                synthesis.count_gates(catalog.home, made),
            )
        return {"task_set_id": made, "counts": counts, "gates": gates}

    def _kept(self, catalog: "storage.Catalog", given: Mapping[str, Any], models: Path) -> str:
        if self.judge:
            return asyncio.run(self._judged(catalog, given, models))
        if self.agreement is not None:
            fields = {**given, "least": self.agreement}
            agreement = synthesis.AgreementRequest.model_validate(fields)
            source: task_sets.Source = synthesis.AgreementSource(agreement, catalog)
        else:
            band = synthesis.BandRequest.model_validate({**given, **self._ends()})
            source = synthesis.BandSource(band, catalog)
        return asyncio.run(task_sets.make_set(source, catalog))

    def _ends(self) -> dict[str, float]:
        """Of the range. Raises UsageError."""
        low, _, high = self.pass_rate.partition(":")
        try:
            return {"low": float(low), "high": float(high)}
        except ValueError:
            raise UsageError(
                f"--pass-rate {self.pass_rate!r}: must be LOW:HIGH, as --pass-rate 0.1:0.9"
            ) from None

    async def _judged(
        self, catalog: "storage.Catalog", given: Mapping[str, Any], models: Path
    ) -> str:
        """Serve the judge behind a gateway, which records its calls, and ask it."""
        from tutti.flows.teaching import NOT_ASKED, TeacherCalls, serve_teachers

        request = synthesis.JudgeRequest.model_validate({**given, "judge": self.judge})
        calls = TeacherCalls(request.request_hash, role="judge")
        log = progress.StageLog()
        async with serve_teachers([self.judge], models, catalog, log, calls) as served:
            budget = synthesis.TeacherBudget(request.usd, request.calls)
            judges = replace(served, budget=budget, concurrency=request.concurrency)
            source = synthesis.JudgedSource(request, judges, catalog)
            made = await task_sets.make_set(source, catalog)
        typer.echo(f"judge: {source.spent or NOT_ASKED}", err=True)
        return made
