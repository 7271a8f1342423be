"""Notifies of a night: in the terminal, on the run's page in Prefect, by its events, by a webhook.

Nothing here may fail a night: the log names what could not be delivered. The webhook's address
(TUTTI_WEBHOOK_URL) is a secret: neither it nor an error's own text is shown or stored.
"""

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rich.markup import escape

from tutti.tasks.nights.record import Record, words_of
from tutti.tasks.nights.spec import Night
from tutti.tasks.nights.verdict import StageResult
from tutti.tasks.platform.progress import StageLog, in_flow_run
from tutti.tasks.sweeps.analysis import Outcome


def night_page(record: Record, results: Sequence[StageResult], notes: Sequence[str] = ()) -> str:
    lines = [f"# {record.night.label}: {record.verdict}", "", record.reason, ""]
    kept = f"accepted: {record.accepted}" if record.accepted else "not accepted"
    lines.append(f"Compared with: {record.baseline or 'no earlier night'}. This night is {kept}.")
    lines += [f"\n{note}." for note in notes]
    for result in results:
        lines += ["", f"## {result.stage}: {result.status}", "", result.reason]
        if result.sweep_id is not None:
            against = f", margins against {result.against}" if result.against else ""
            lines += ["", f"Sweep `{result.sweep_id}`{against}"]
        lines += ["", *map(_line, result.outcomes)]
    return "\n".join(lines) + "\n"


def night_dict(
    record: Record, results: Sequence[StageResult], notes: Sequence[str]
) -> dict[str, Any]:
    of_stage = ("stage", "status", "reason", "sweep_id", "against")
    stages = [
        {name: getattr(each, name) for name in of_stage}
        | {"gates": [asdict(gate) | {"gate": str(gate.gate)} for gate in each.outcomes]}
        for each in results
    ]
    of_night = ("verdict", "reason", "accepted", "baseline", "whole")
    fields = {name: getattr(record, name) for name in of_night}
    return {"night": record.night.label, **fields, "stages": stages, "notes": list(notes)}


def _line(found: Outcome) -> str:
    """Return one gate at one set-up as a line; a table would be too wide for a run's page."""
    figures = [] if found.value is None else [f"{found.value:.3g}"]
    if found.low is not None and found.high is not None:
        figures.append(f"95 % interval {found.low:.3g} to {found.high:.3g}")
    if found.p is not None:
        figures.append("p < 0.001" if found.p < 0.001 else f"p = {found.p:.3f}")
    figures += [] if found.n is None else [f"n = {found.n}"]
    figures += [f"**{found.verdict}**"] if found.cells_a else []
    where = f" ({found.where})" if found.where else ""
    return f"- **{found.status}**: {found.gate}{where}: {', '.join(figures) or found.reason}"


VARIABLE = "TUTTI_WEBHOOK_URL"
TRIES = 3
TIMEOUT_S = 10.0
WAIT_S = 2.0  # before the second try; twice that before the third
LATER = (429, 500, 502, 503, 504)  # worth another try


async def post_webhook(body: Mapping[str, Any], wait_s: float = WAIT_S) -> str | None:
    """POST `body` as JSON, if the environment names an address; a failure is returned as text."""
    url = os.environ.get(VARIABLE)
    if not url:
        return None
    why = ""
    for nth in range(TRIES):
        await asyncio.sleep(nth * wait_s)
        status, why = await _try(url, body)
        if not why or (status is not None and status not in LATER):
            break
    return f"{VARIABLE}: not delivered: {why}" if why else None


async def _try(url: str, body: Mapping[str, Any]) -> tuple[int | None, str]:
    import httpx

    try:
        with _unlogged():
            async with httpx.AsyncClient(timeout=TIMEOUT_S) as client:
                answer = await client.post(url, json=dict(body))
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return None, type(error).__name__  # its text may hold the address
    return answer.status_code, "" if answer.is_success else f"HTTP {answer.status_code}"


@contextmanager
def _unlogged() -> Iterator[None]:
    """Prevent httpx and httpcore from logging the request's address and host."""
    loggers = [logging.getLogger(name) for name in ("httpx", "httpcore")]
    before = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for each, level in zip(loggers, before, strict=True):
            each.setLevel(level)


EVENT = "tutti.night."  # with the verdict: `tutti.night.worse`
ALERTS = "tutti.night.alerts"  # label, yes or no: whether somebody must look at the night
COLOURS = {"better": "green", "same": "green", "worse": "red", "inconclusive": "yellow"}


def planned_for() -> datetime:
    """The time for which this flow run was scheduled, however late it starts; else the present."""
    run = _flow_run()
    if run is None or run.expected_start_time is None:
        return datetime.now(UTC)
    return datetime.fromtimestamp(run.expected_start_time.timestamp(), UTC)


def _flow_run() -> Any:
    if not in_flow_run():
        return None
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    return None if context is None else context.flow_run


async def tell(
    record: Record, results: Sequence[StageResult], notes: Sequence[str], log: StageLog
) -> None:
    """Print the result of a night; post it to the webhook if it needs attention."""
    label, word = record.night.label, record.verdict
    accepted = f" [dim](accepted: {record.accepted})[/]" if record.accepted else ""
    line = f"[{COLOURS[word]}]{label}: {word}[/]{accepted}: {escape(record.reason)}"
    log.console.print(line, soft_wrap=True)
    if record.alerts and (failure := await post_webhook(summary(record))) is not None:
        log.console.print(f"[yellow]{failure}[/]")
    if not in_flow_run():
        return
    from prefect.artifacts import acreate_markdown_artifact
    from prefect.events import emit_event

    page = night_page(record, results, notes)
    await acreate_markdown_artifact(page, "night", f"{label}: {record.verdict}")
    sweeps = list(record.sweeps.values())
    resource = {"prefect.resource.id": sweeps[-1] if sweeps else label}
    resource |= {"prefect.resource.name": label, "tutti.night": label}
    resource |= {ALERTS: "yes" if record.alerts else "no"}
    emit_event(EVENT + record.verdict, resource, payload=summary(record))


async def tell_failure(night: Night, error: Exception) -> None:
    """Notify of a night that an error ended before its verdict, because nothing else would."""
    record = Record(night, reason=f"no verdict: {words_of(error)}")
    await tell(record, (), (), StageLog())


def summary(record: Record) -> dict[str, Any]:
    """The content of an event and of a webhook; chat programs show `text`."""
    label, link = record.night.label, run_link()
    return {
        "text": f"{label}: {record.verdict}: {record.reason}" + (f" {link}" if link else ""),
        "link": link,
        "night": label,
        "verdict": record.verdict,
        "reason": record.reason,
        "baseline": record.baseline,
        "accepted": record.accepted,
        "sweeps": dict(record.sweeps),
    }


def run_link() -> str | None:
    """The address of this flow run's page; None outside a flow run and if Prefect has none."""
    run = _flow_run()
    if run is None:
        return None
    from prefect.utilities.urls import url_for

    return url_for(run)


def ended(night: Mapping[str, Any]) -> Any:
    """Return the flow run's state: `Completed` if the night was accepted, else `Failed`, with the
    verdict as message. Prefect's pages leave out runs whose state has another name."""
    from prefect.states import Completed, Failed

    kind = Completed if night["accepted"] else Failed
    return kind(message=f"{night['night']}: {night['verdict']}: {night['reason']}")
