"""The plan of the scheduling bench: groups of cells, their arms, and the order of arms in a block.

In: the command line's choices. Out: `Group`s (set-up x shape x load), each a number of blocks; a
block runs every arm once, in an order shuffled by the seed, so that a slow minute of the machine
affects each of them. The caps of the oracle's sweep are eliminated: after a few blocks only the
best remain.
"""

import hashlib
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from random import Random

from bench.scheduling.arms import Arm, arms_named
from bench.scheduling.engine import Setup
from bench.scheduling.work import VERSION
from tutti.tasks.serving.engines.flags import EXECUTOR

SWEEP_BLOCKS = 3
"""Blocks in which every cap runs; afterwards only the `CAPS_KEPT` best ones do."""
CAPS_KEPT = 2

Wanted = tuple[tuple[str, int], ...]
"""Names of arms, each with the number of blocks it takes part in."""


@dataclass(frozen=True)
class Group:
    """Cells that are compared with each other."""

    setup: str
    shape: str
    load: float
    blocks: int
    wanted: Wanted
    passes: float = 1.0
    """Programs of a cell per session."""

    @property
    def name(self) -> str:
        """The prefix of its figures' names."""
        return f"{self.setup}_{self.load:g}x_{self.shape}"

    def sessions(self, setup: Setup) -> int:
        """Concurrent programs."""
        return max(1, round(self.load * setup.fit))

    def programs(self, setup: Setup) -> int:
        """Programs of a cell; a multiple of the sessions, except if there are few sessions, so that
        sessions are not idle at the end."""
        return max(round(self.sessions(setup) * self.passes), setup.least_programs)


@dataclass(frozen=True)
class CellSpec:
    """One cell: the same spec is the same work."""

    setup: str
    shape: str
    load: float
    block: int
    arm: str
    seed: int
    sessions: int
    programs: int
    setup_digest: str
    """Hash of the set-up, vLLM's options, and the programs' version."""

    @property
    def key(self) -> str:
        """The key of its record."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def group(self) -> str:
        """The name of its group."""
        return f"{self.setup}_{self.load:g}x_{self.shape}"

    @property
    def work_seed(self) -> str:
        """The seed of its programs: the same for all arms of a block."""
        return f"{self.seed}/{self.setup}/{self.shape}/{self.load:g}/{self.block}"


MAIN_BLOCKS, LOAD_BLOCKS, SIDE_BLOCKS = 12, 3, 2
MAIN_PASSES = 1.5
DEFAULT_ARMS = ("direct", "cap", "adaptive")
MAIN_ARMS: Wanted = (
    ("direct", MAIN_BLOCKS),
    ("cap-16", MAIN_BLOCKS),
    ("cap-12", 2),  # the oracle's curve falls on both sides of 16
    ("cap-14", 2),
    ("cap-18", 2),
    ("cap-20", 2),
    ("adaptive", MAIN_BLOCKS),
    ("thunderagent", 2),
    ("ThunderAgent-0.5s", 6),
    ("ThunderAgent-5s", 1),  # three times as slow as the others, so it is not a competitor here
    ("vllm-router", 2),
)


def _side(
    load: float,
    shape: str,
    *arms: str,
    setup: str = "small",
    blocks: int = SIDE_BLOCKS,
    passes: float = MAIN_PASSES,
) -> Group:
    wanted = tuple((arm, blocks) for arm in ("direct", *arms, "adaptive"))
    return Group(setup, shape, load, blocks, wanted, passes)


DEFAULT_PLAN = (
    Group("small", "append", 3, MAIN_BLOCKS, MAIN_ARMS, MAIN_PASSES),
    *(_side(load, "append", blocks=LOAD_BLOCKS, passes=4) for load in (0.5, 1)),  # without a limit
    *(_side(load, "append", "cap-16", blocks=LOAD_BLOCKS) for load in (1.5, 2, 4)),
    *(_side(3, shape, "cap-16") for shape in ("mixed", "heavy", "rebuilt")),
    _side(3, "no_release"),  # a cap would wait for the leases of programs that disconnected
    *(_side(load, "append", setup="mid", blocks=1) for load in (0.5, 1)),
    _side(3, "append", "cap-6", "cap-8", setup="mid", passes=1),
)
"""About fifty minutes, of which the first group takes nearly half."""


def read_arms(text: str, blocks: int) -> Wanted:
    """``direct,cap,ThunderAgent-5s:3``: names, each with its blocks when fewer than all."""
    found = []
    for item in text.split(","):
        name, _, own = item.strip().partition(":")
        found.append((name, min(blocks, int(own)) if own else blocks))
    return tuple(found)


def make_plan(
    setups: Sequence[str],
    shapes: Sequence[str],
    loads: Sequence[float],
    arms: str | None,
    blocks: int | None,
    passes: float | None,
) -> tuple[Group, ...]:
    """The groups: the default ones if no choice is given, else the chosen grid."""
    if not (setups or shapes or loads or arms or blocks or passes):
        return DEFAULT_PLAN
    count = blocks or SIDE_BLOCKS
    wanted = read_arms(arms or ",".join(DEFAULT_ARMS), count)
    points = product(setups or ("small",), shapes or ("append",), loads or (3.0,))
    return tuple(
        Group(setup, shape, load, count, wanted, passes or 1.0) for setup, shape, load in points
    )


def arms_of_block(
    group: Group, setup: Setup, block: int, seed: int, caps: Mapping[str, Sequence[float]]
) -> tuple[Arm, ...]:
    """The arms of a block in their order; `caps` are the rates of each cap in the first blocks."""
    names = [name for name, blocks in group.wanted if block < blocks]
    arms = list(arms_named(names, setup.fit, group.sessions(setup)))
    if block >= SWEEP_BLOCKS:
        best = best_caps(caps) or {
            arm.name for arm in arms if arm.is_cap and arm.limit == setup.fit
        }
        swept = {name for name, _ in group.wanted}
        arms = [arm for arm in arms if not arm.is_cap or arm.name in swept | best]
    Random(f"{seed}/{group.name}/{block}").shuffle(arms)
    return tuple(arms)


def best_caps(caps: Mapping[str, Sequence[float]]) -> set[str]:
    """The names of those with the highest medians."""
    ordered = sorted(caps, key=lambda name: statistics.median(caps[name]), reverse=True)
    return set(ordered[:CAPS_KEPT])


def spec_of(group: Group, setup: Setup, block: int, arm: Arm, seed: int) -> CellSpec:
    """The cell of an arm in a block."""
    sizes = (group.sessions(setup), group.programs(setup))
    place = (group.setup, group.shape, group.load, block, arm.name, seed)
    digest = hashlib.sha256(repr((VERSION, EXECUTOR, setup)).encode()).hexdigest()[:8]
    return CellSpec(*place, *sizes, digest)
