"""Who is told of a night: the terminal, the run's page in Prefect, its events, a webhook.

In: a night's record. Nothing here may fail a night: what could not be told is said in the log.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.markup import escape

from tutti.tasks.nights.page import night_page
from tutti.tasks.nights.record import Record, words_of
from tutti.tasks.nights.spec import Night
from tutti.tasks.nights.verdict import StageResult
from tutti.tasks.nights.webhook import post_webhook
from tutti.tasks.progress import StageLog, in_flow_run

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
