"""The arms of the scheduling bench: what is placed between the client and the one running engine.

In: an arm's name (``direct``, ``cap-16``, ``adaptive``, ``ThunderAgent-0.5s`` …). Out: `opened`,
a context that starts it, yields the `ArmEndpoint` the client calls, and ends it.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bench.scheduling.client import ArmEndpoint
from bench.scheduling.peers import PeerCommand, Peers
from tutti.storage import Catalog
from tutti.tasks.platform.project import PROJECT
from tutti.tasks.serving.processes.process import Child, answers, claim_port

START_TIMEOUT_S = 60.0

POLICIES = ("adaptive", "thunderagent", "continuum", "least_attained_service", "passthrough")
"""Our policies besides `cap`."""
CAP = re.compile(r"cap-([1-9]\d*)")
THUNDERAGENT = re.compile(r"ThunderAgent-([0-9.]+)s")
CAP_SHARES = (0.5, 0.75, 0.875, 1.0, 1.125, 1.25, 1.5)
"""Limits of the sweep of `cap`, relative to the set-up's fit."""


@dataclass(frozen=True)
class Arm:
    """One contestant."""

    name: str
    policy: str = ""
    """Of our gateway; empty for all others."""
    limit: int | None = None
    interval_s: float = 0.0

    @property
    def is_peer(self) -> bool:
        """Whether it is other software than ours."""
        return self.name.startswith(("ThunderAgent", "vllm-router"))

    @property
    def is_cap(self) -> bool:
        """Whether it is a point of the oracle's curve."""
        return self.policy == "cap"


DIRECT = Arm("direct")


def arm_named(name: str) -> Arm:
    """The arm of that name. Raises ValueError."""
    if name in ("direct", "vllm-router"):
        return Arm(name)
    if name in POLICIES:
        return Arm(name, policy=name)
    if found := CAP.fullmatch(name):
        return Arm(name, policy="cap", limit=int(found[1]))
    if found := THUNDERAGENT.fullmatch(name):
        return Arm(name, interval_s=float(found[1]))
    known = ", ".join(("direct", "cap", "cap-K", *POLICIES, "ThunderAgent-0.5s", "vllm-router"))
    raise ValueError(f"no arm is called {name!r}; there are {known}")


def arms_named(names: Sequence[str], fit: int, sessions: int) -> tuple[Arm, ...]:
    """The arms of those names; ``cap`` stands for every limit of the sweep that can take effect."""
    found: dict[str, Arm] = {}
    for name in names:
        limits = [f"cap-{round(fit * share)}" for share in CAP_SHARES] if name == "cap" else [name]
        for each in limits:
            arm = arm_named(each)
            if name != "cap" or (arm.limit or 0) < sessions:
                found[arm.name] = arm
    return tuple(found.values())


def gateway_command(arm: Arm, engine_url: str, port: int) -> tuple[str, ...]:
    """The command that starts our gateway with the arm's policy."""
    command = (sys.executable, "-m", "tutti.tasks.serving.gateway", "--engine", engine_url)
    limit = () if arm.limit is None else ("--limit", str(arm.limit))
    return (*command, "--policy", arm.policy, *limit, "--port", str(port))


@contextmanager
def opened(arm: Arm, engine_url: str, catalog: Catalog, peers: Peers) -> Iterator[ArmEndpoint]:
    """The arm in front of the engine, for the block's duration.

    Raises PeerMissing, and ServingError when what was started does not answer.
    """
    if arm == DIRECT:
        yield ArmEndpoint(engine_url)
        return
    port = claim_port(None)
    url, ready = f"http://127.0.0.1:{port}", "/health"
    if arm.policy:
        path = os.environ.get("PYTHONPATH")
        environment = {"TUTTI_HOME": str(catalog.home)}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(PROJECT), path)))
        started = PeerCommand(gateway_command(arm, engine_url, port), tuple(environment.items()))
        front = ArmEndpoint(url, releases=True, tells_held=True)
    elif arm.interval_s:
        started = peers.thunderagent(engine_url, port, arm.interval_s)
        front = ArmEndpoint(url, releases=True, names_in_body=True)
    else:
        started = peers.vllm_router(engine_url, port, claim_port(None))
        front, ready = ArmEndpoint(url), "/v1/models"
    role = f"bench-{arm.name}"
    with Child(role, started.command, dict(started.environment), catalog) as child:
        child.wait_ready(lambda: answers(url + ready), START_TIMEOUT_S)
        yield front
