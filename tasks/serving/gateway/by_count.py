"""Engines whose load cannot be seen: they have no `/metrics`, or one in other words than vLLM's and
SGLang's.

In: an endpoint whose sample failed. Out: whether it answers otherwise, and what it lacks. Calls are
then scheduled by their count: `max_calls` of the endpoint, else the gateway's `slots`, are in
flight at a time; the others wait in order of arrival. Its list of models is the health check.
"""

from http import HTTPStatus

from tutti.tasks.serving.gateway.endpoint import FAILURES_TO_CLOSE, Endpoint, ProbeFailed
from tutti.tasks.serving.metering.sampler import EngineSample

FOREIGN = "its /metrics have no figures of vLLM or SGLang"


class EngineUnwell(ProbeFailed):
    """The engine itself says that it does not serve."""


def page_error(status: int) -> ProbeFailed:
    """What an answer to /metrics with another status than 200 means."""
    text = f"/metrics answered {status}"
    absent = status < HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.NOT_IMPLEMENTED
    return ProbeFailed(text) if absent else EngineUnwell(text)


async def lacks_metrics(endpoint: Endpoint, error: Exception) -> bool:
    """Whether an endpoint whose sample failed answers all the same, so that only its metrics are
    missing: from its first sample on, or after as many misses as take an engine out of service."""
    is_new = not endpoint.reachable and not endpoint.has_metrics
    if isinstance(error, EngineUnwell):
        return False
    if not (is_new or endpoint.lacks or endpoint.failures + 1 >= FAILURES_TO_CLOSE):
        return False
    try:
        await endpoint.read_models()
    except ProbeFailed:
        return False
    endpoint.lacks = endpoint.lacks or str(error)
    endpoint.kv_usage = None
    return True


def is_foreign(sample: EngineSample, capacity_tokens: int | None) -> bool:
    """Whether a page of metrics says nothing of the engine's load or cache."""
    return (sample.running, sample.kv_usage, capacity_tokens) == (None, None, None)


def set_slots(endpoint: Endpoint, slots: int) -> None:
    """Limit the calls in flight of an endpoint that lacks metrics; with them, only the endpoint's
    own limit counts. A capacity that was seen or given stays: policies go on to book by it."""
    counted = bool(endpoint.lacks) and endpoint.engine.capacity_tokens is None
    endpoint.engine.max_calls = endpoint.config.max_calls or (slots if counted else None)


def warning(endpoint: Endpoint) -> str:
    """What an operator is told of an endpoint that lacks metrics."""
    engine = endpoint.engine
    if engine.capacity_tokens is not None:
        rule = f"its capacity stays {engine.capacity_tokens} tokens"
    else:
        rule = (
            f"calls are scheduled by count, at most {engine.max_calls} at a time; set its "
            "`max_calls`, its `capacity_tokens` or --slots"
        )
    return f"{endpoint.name} has no usable metrics ({endpoint.lacks}): {rule}"
