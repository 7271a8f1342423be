"""What a harness is told of its attempt, and what the attempt took, from the gateway.

In: a sample, the sweep's models. Out: the content of the file ``TUTTI_TASK``:

* ``task_id``, ``id``, ``messages``, ``tools``, ``max_tokens``, ``temperature``
* ``benchmark``: its name; ``source``: the suite's `data.source`, absolute, or null
* ``seconds``: after so long the harness is ended
* ``request``: all fields of a request to the measured model, besides messages, tools and seed
* ``roles``: ``user`` and ``judge``, each with ``model`` (the name that calls give) and ``request``;
  ``call_expert``, where the suite's agent has that tool: ``tool`` (its schema) and ``experts``, by
  alias, each with ``model`` and ``request``

A call of another role names it in the header ``X-Tutti-Role``. Its tokens are not the attempt's;
an expert's cost is, a user's and a judge's are not.
"""

from collections.abc import Mapping
from typing import Any

from tutti.storage import Cost
from tutti.tasks.agents import CommandTrajectory, sampling_of
from tutti.tasks.agents.orchestrator import drawn, offered_expert_tool
from tutti.tasks.sweeps.plan import EXPERT, JUDGE, USER, WARM, Plan, Sample, ServedModel

MOST_TOKENS = 4096
"""Of a user's or a judge's reply: a user with tools of its own and a judge of many assertions write
more than elsewhere."""
SHARE = 4  # of a model's context: the most that a reply may take


def command_task(plan: Plan, sample: Sample, seed: int) -> dict[str, Any]:
    """The content of ``TUTTI_TASK``; `seed` is the sample's."""
    suite, asked = plan.suite, sample.task
    source = suite.data.source
    temperature, most = suite.sampling.temperature, suite.sampling.reply_tokens
    task: dict[str, Any] = {"task_id": asked.task_id, "id": asked.key}
    task |= {"messages": asked.messages, "tools": tuple(asked.tools)}
    task |= {"max_tokens": most, "temperature": temperature, "benchmark": suite.benchmark_name}
    task |= {"source": None if source is None else str(source.absolute())}
    task |= {"seconds": suite.limits.command_s, "roles": _roles(plan, sample, seed)}
    entry = plan.config.model
    if entry is None:
        request: Mapping[str, Any] = {"temperature": temperature, "max_tokens": most}
    else:
        request = sampling_of(entry, temperature, most, seed).fields
    return task | {"request": _given(request)}


def take_spent(done: CommandTrajectory, spent: Mapping[str, float]) -> Cost:
    """Add what the gateway counted for the attempt; returns the cost of judge and user."""
    aside = Cost()
    for role in (f"{USER}.", f"{JUDGE}."):
        aside.include(_cost(spent, role))
    others = (USER, JUDGE, EXPERT)

    def own(unit: str) -> int:
        """Of the measured model alone."""
        return int(spent.get(unit, 0) - sum(spent.get(f"{role}.{unit}", 0) for role in others))

    done.steps = own("calls")
    done.prompt_tokens, done.cached_tokens = own("prompt_tokens"), own("cached_tokens")
    done.completion_tokens = own("completion_tokens")
    done.held_s, done.partner_s = spent.get("held_s", 0.0), spent.get("partner_s", 0.0)
    whole = _cost(spent)
    done.cost.include(Cost(whole.known_usd - aside.known_usd, whole.unknown - aside.unknown))
    return aside


def _cost(spent: Mapping[str, float], role: str = "") -> Cost:
    """The cost of all calls, or of those in a role (``user.``)."""
    return Cost(spent.get(f"{role}cost_usd", 0.0), int(spent.get(f"{role}unknown_costs", 0)))


def _roles(plan: Plan, sample: Sample, seed: int) -> dict[str, Any]:
    roles = plan.config.roles
    served = {USER: roles.user, JUDGE: roles.judge}
    found = {role: _partner(each, seed) for role, each in served.items() if each is not None}
    if roles.agent is None or roles.agent.tools.call_expert is None:
        return found
    file = drawn(roles.agent, seed, sample.task.task_id)
    tool = file.tools.call_expert
    assert tool is not None, "drawn of a file that has it"
    experts = {
        alias: _asked(roles.experts[each.model], each.temperature, each.max_tokens, seed)
        for alias, each in tool.experts.items()
    }
    return found | {"call_expert": {"tool": offered_expert_tool(tool), "experts": experts}}


def _partner(served: ServedModel, seed: int) -> dict[str, Any]:
    room = max(1, min(MOST_TOKENS, served.model.context_tokens // SHARE))
    return _asked(served, WARM, room, seed)


def _asked(served: ServedModel, temperature: float, max_tokens: int, seed: int) -> dict[str, Any]:
    sampling = sampling_of(served.model, temperature, max_tokens, seed)
    return {"model": served.name, "request": _given(sampling.fields)}


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
