"""The tools, experts and prices of one task, drawn from its seed.

In: a domain, a task, vendors' price books (`vendors.yaml`, invented and editable), the experts of
an agent's file. Out: the tools that the task offers and their prices. Each draw has its own random
stream, named by seed, task and feature, so that another vendor changes no other draw.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from tutti.errors import UsageError
from tutti.tasks.agents.orchestrator import AgentFile
from tutti.tasks.platform import read_document
from tutti.tasks.synthesis.domains import Domain, DomainTask
from tutti.tasks.synthesis.domains.offer import ExpertPrices

FILE = Path(__file__).with_name("vendors.yaml")
SIGNIFICANT = 6
"""Digits of a price: a product of floats should read as a price."""


class Vendor(BaseModel):
    """A vendor's price book."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    call_usd: dict[Literal["READ", "WRITE", "GENERIC"], float] = Field(min_length=3)
    models: float = Field(gt=0)


@cache
def read_vendors(file: Path = FILE) -> Mapping[str, Vendor]:
    """Return the price books of a file by vendor. Raises UsageError with file, line and field."""
    return read_document(file, UsageError).check(RootModel[dict[str, Vendor]]).root


@dataclass(frozen=True)
class DrawnOffer:
    """The offer of a task, without its preference."""

    tools: tuple[str, ...]
    """In the domain's order."""
    call_usd: dict[str, float]
    experts: dict[str, ExpertPrices]
    vendors: dict[str, str]


def needed_tools(task: DomainTask) -> frozenset[str]:
    """Return the tools that the task requires."""
    return frozenset(each.name for each in (*task.world.actions, *task.world.forbidden))


def draw_offer(
    domain: Domain,
    task: DomainTask,
    stream: str,
    agent: AgentFile | None = None,
    keep: Sequence[str] = (),
) -> DrawnOffer:
    """Return the tools, experts and prices of a task, a function of the arguments only. `stream`
    names the draws, `keep` are tools that must be offered besides the needed ones."""
    names = [each.name for each in domain.tools]
    always = needed_tools(task) | set(keep)
    others = [name for name in names if name not in always]
    subset = Random(f"{stream}/tools")
    there = always | set(subset.sample(others, subset.randint(0, len(others))))
    tools = tuple(name for name in names if name in there)
    books = read_vendors()
    vendors = {n: Random(f"{stream}/vendor/{n}").choice(list(books)) for n in tools}
    kinds = domain.tool_named
    call_usd = {n: books[vendors[n]].call_usd[kinds[n].kind] for n in tools}
    experts, whose = _experts(agent, stream, books)
    return DrawnOffer(tools, call_usd, experts, vendors | whose)


def _experts(
    agent: AgentFile | None, stream: str, books: Mapping[str, Vendor]
) -> tuple[dict[str, ExpertPrices], dict[str, str]]:
    tool = None if agent is None else agent.tools.call_expert
    if tool is None:
        return {}, {}
    subset = Random(f"{stream}/experts")
    there = set(subset.sample(list(tool.experts), subset.randint(1, len(tool.experts))))
    vendors = {
        alias: Random(f"{stream}/vendor/{alias}").choice(list(books))
        for alias in tool.experts
        if alias in there
    }
    prices = {
        alias: ExpertPrices(
            prompt=_rounded(tool.experts[alias].prices.prompt * books[vendor].models),
            completion=_rounded(tool.experts[alias].prices.completion * books[vendor].models),
        )
        for alias, vendor in vendors.items()
    }
    return prices, vendors


def _rounded(price: float) -> float:
    return float(f"{price:.{SIGNIFICANT}g}")
