"""Who is told of a night: the terminal, the run's page in Prefect, its events, a webhook.

In: a night's record and its stages' results. Nothing here may fail a night: the log has what could
not be delivered. The webhook's address (TUTTI_WEBHOOK_URL) is a secret, for most hold a token:
neither it nor an error's own text is shown or kept.
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
from tutti.tasks.progress import StageLog, in_flow_run
from tutti.tasks.sweeps.analysis import Outcome


def night_page(record: Record, results: Sequence[StageResult], notes: Sequence[str] = ()) -> str:
    """The night's verdict, its reason, and each stage's gates."""
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
    """The same for `--json`."""
    stages = [
        {
            "stage": each.stage,
            "status": each.status,
            "reason": each.reason,
            "sweep_id": each.sweep_id,
            "against": each.against,
            "gates": [asdict(gate) | {"gate": str(gate.gate)} for gate in each.outcomes],
        }
        for each in results
    ]
    return {
        "night": record.night.label,
        "verdict": record.verdict,
        "reason": record.reason,
        "accepted": record.accepted,
        "baseline": record.baseline,
        "whole": record.whole,
        "stages": stages,
        "notes": list(notes),
    }


def _line(found: Outcome) -> str:
    """One gate at one set-up; a table would be too wide for a run's page."""
    said = [] if found.value is None else [_number(found.value)]
    if found.low is not None and found.high is not None:
        said.append(f"95 % interval {_number(found.low)} to {_number(found.high)}")
    if found.p is not None:
        said.append("p < 0.001" if found.p < 0.001 else f"p = {found.p:.3f}")
    said += [] if found.n is None else [f"n = {found.n}"]
    said += [f"**{found.verdict}**"] if found.cells_a else []
    where = f" ({found.where})" if found.where else ""
    return f"- **{found.status}**: {found.gate}{where}: {', '.join(said) or found.reason}"


def _number(value: float) -> str:
    return f"{value:.3g}"


VARIABLE = "TUTTI_WEBHOOK_URL"
TRIES = 3
TIMEOUT_S = 10.0
WAIT_S = 2.0  # before the second try; twice that before the third
LATER = (429, 500, 502, 503, 504)  # worth another try


async def post_webhook(body: Mapping[str, Any], wait_s: float = WAIT_S) -> str | None:
    """POST `body` as JSON, if the environment names an address; a failure is words, no error."""
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
    """The status, None for no answer; and what was wrong, empty for nothing."""
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
    """httpx logs every request's address, and what is below it the host's."""
    loggers = [logging.getLogger(name) for name in ("httpx", "httpcore")]
    before = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for each, level in zip(loggers, before, strict=True):
            each.setLevel(level)


EVENT = "tutti.night."
"""With the verdict: `tutti.night.worse`."""
ALERTS = "tutti.night.alerts"
"""Label of an event's resource, yes or no: whether somebody must look at the night."""
COLOURS = {"better": "green", "same": "green", "worse": "red", "inconclusive": "yellow"}


def planned_for() -> datetime:
    """The time that this flow run was scheduled for, however late it starts; else the present."""
    if in_flow_run():
        from prefect.context import FlowRunContext

        context = FlowRunContext.get()
        run = None if context is None else context.flow_run
        if run is not None and run.expected_start_time is not None:
            return datetime.fromtimestamp(run.expected_start_time.timestamp(), UTC)
    return datetime.now(UTC)


async def tell(
    record: Record, results: Sequence[StageResult], notes: Sequence[str], log: StageLog
) -> None:
    """Print the result of a night; post it to the webhook if somebody must look at it."""
    label, word = record.night.label, record.verdict
    accepted = f" [dim](accepted: {record.accepted})[/]" if record.accepted else ""
    said = f"[{COLOURS[word]}]{label}: {word}[/]{accepted}: {escape(record.reason)}"
    log.console.print(said, soft_wrap=True)
    if record.alerts and (failure := await post_webhook(summary(record))) is not None:
        log.console.print(f"[yellow]{failure}[/]")
    if in_flow_run():
        await _tell_prefect(record, night_page(record, results, notes))


async def tell_failure(night: Night, error: Exception) -> None:
    """Notify of a night that an error ended before its verdict: nothing else would."""
    record = Record(night, reason=f"no verdict: {words_of(error)}")
    await tell(record, (), (), StageLog())


def summary(record: Record) -> dict[str, Any]:
    """What an event and a webhook carry; `text` is what chat programs show."""
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
    """The address of this flow run's page, with the night's tables; None outside a flow run and
    where Prefect knows no address of its pages."""
    if not in_flow_run():
        return None
    from prefect.context import FlowRunContext
    from prefect.utilities.urls import url_for

    context = FlowRunContext.get()
    run = None if context is None else context.flow_run
    return None if run is None else url_for(run)


async def _tell_prefect(record: Record, page: str) -> None:
    from prefect.artifacts import acreate_markdown_artifact
    from prefect.events import emit_event

    label = record.night.label
    await acreate_markdown_artifact(page, "night", f"{label}: {record.verdict}")
    sweeps = list(record.sweeps.values())
    resource = {"prefect.resource.id": sweeps[-1] if sweeps else label}
    resource |= {"prefect.resource.name": label, "tutti.night": label}
    resource |= {ALERTS: "yes" if record.alerts else "no"}
    emit_event(EVENT + record.verdict, resource, payload=summary(record))


def ended(night: Mapping[str, Any]) -> Any:
    """The state of the flow run: `Completed` where the night was accepted, else `Failed`, for
    somebody should look at it; the verdict is its message.

    The states keep Prefect's own names: its pages leave out runs whose state has another.
    """
    from prefect.states import Completed, Failed

    kind = Completed if night["accepted"] else Failed
    return kind(message=f"{night['night']}: {night['verdict']}: {night['reason']}")
