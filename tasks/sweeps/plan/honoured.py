"""What a suite asks of its models and limits that a harness's own package cannot do.

In: a suite and its set-up. Out: nothing, or a SuiteError before anything starts; it was ignored.
"""

from collections.abc import Iterator

from tutti.tasks.agents import ShippedHarness, shipped_harness
from tutti.tasks.serving import Model
from tutti.tasks.sweeps.plan.config import CellConfig
from tutti.tasks.sweeps.spec import Suite, SuiteError

USERS_WITH_TOOLS = ("tau2-banking", "tau2-telecom")
"""Benchmarks in which the simulated user calls tools of its own."""
OWN_LIMITS = ("max_turns", "working_s", "attempt_usd")
"""Limits that tutti's agent keeps, and a package does not know."""


def check_honoured(suite: Suite, config: CellConfig, whole: Suite | None) -> None:
    """See that a harness's package can do what the suite's models and limits ask for. `whole` is
    the grid that the suite is a part of, whose limits may be another part's.

    Raises SuiteError with the field and what to do.
    """
    harness = shipped_harness(suite.command)
    if harness is None:
        return
    for model_name, model in _calling(suite, config):
        if model is not None and (said := _not_honoured(model)) is not None:
            raise SuiteError(
                f"models.{model_name}.{said}: {harness.name}'s package sends tools with each "
                f"request and reads the calls of the reply, which this model's entry rules out; "
                f"name another model for {suite.benchmark_name}"
            )
    if whole is None or not whole.is_grid:
        _check_fields(suite, harness)


def _calling(suite: Suite, config: CellConfig) -> Iterator[tuple[str, Model | None]]:
    """The models that get tools: the measured one, experts, and users with tools of their own."""
    yield config.model_name, config.model
    for served in config.roles.experts.values():
        yield served.name, served.model
    user = config.roles.user
    if user is not None and suite.benchmark_name in USERS_WITH_TOOLS:
        yield user.name, user.model


def _not_honoured(model: Model) -> str | None:
    """The setting of a model's entry that a package cannot follow, as it is written; or None."""
    if not model.tools:
        return "tools: false"
    if model.dialect != "openai":
        return f"dialect: {model.dialect}"
    return None


def _check_fields(suite: Suite, harness: ShippedHarness) -> None:
    if suite.data.prompt is not None:
        raise SuiteError(
            f"data.prompt: {suite.benchmark_name} has the prompts of {harness.name}'s package; "
            "leave it out"
        )
    fields = type(suite.limits).model_fields
    for name in OWN_LIMITS:
        if getattr(suite.limits, name) != fields[name].default:
            instead = "`limits.command_s` limits an attempt's time"
            if harness.has_experts and name == "max_turns":
                instead = f'set `harness.command: "{harness.word} --max-steps N"`'
            raise SuiteError(
                f"limits.{name}: {harness.name}'s package does not know it; leave it out; {instead}"
            )
