"""The ancestors and descendants of an artifact.

In: a catalog and an artifact's id. Out: a `Graph`; a text tree, or Mermaid source.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

import sqlalchemy as sa

from tutti.storage import catalog as cat

Direction = Literal["up", "down", "both"]
HASH_SHOWN = 8  # of 16 hex digits in a chart: 32 bits are enough to distinguish its nodes
MAX_FACTS = 3
MAX_FACT_CHARACTERS = 40
NOT_LAST, LAST, BAR, BLANK = "├── ", "└── ", "│   ", "    "

# Facts that distinguish artifacts of a kind, most important first. A kind that is not listed, or
# has none of these, shows its first plain values.
FACTS: dict[str, tuple[str, ...]] = {
    "corpus": ("name", "documents"),
    "index": ("name", "documents", "recall_at_10"),
    "task_set": ("name", "benchmark", "accepted", "tasks"),
    "engine": ("server", "context"),
    "cell": ("benchmark", "model", "policy", "concurrency", "repeat", "accuracy"),
    "sweep": ("name",),
    "training_set": ("name", "conversations", "rows", "attempts", "sequences"),
    "checkpoint": ("name", "folder", "base", "score", "accuracy"),
    "adapter": ("name", "objective", "seconds", "seed", "score", "accuracy"),
}
BARE = ("name", "benchmark", "model", "policy", "server", "folder", "objective")
"""Facts that are shown without a label."""


@dataclass(frozen=True)
class Node:
    """One artifact. One that is only named as a parent has no detail and is not `entered`."""

    artifact_id: str
    detail: dict[str, Any] = field(default_factory=dict)
    path: str | None = None
    created_at: datetime | None = None
    entered: bool = False

    @property
    def kind(self) -> str:
        """The word before the colon of its id."""
        return self.artifact_id.split(":", 1)[0]

    @property
    def facts(self) -> str:
        """A few words that distinguish it from others of its kind."""
        return _facts(self.kind, self.detail) if self.entered else "not in this store"


@dataclass(frozen=True)
class Graph:
    """The artifacts reachable from `start`, and their edges."""

    start: str
    nodes: dict[str, Node]
    edges: tuple[tuple[str, str], ...]
    """(parent, child), in order."""

    def parents(self) -> dict[str, list[str]]:
        """The parents of each artifact."""
        return _grouped((child, parent) for parent, child in self.edges)

    def children(self) -> dict[str, list[str]]:
        """The children of each artifact."""
        return _grouped(self.edges)

    def as_json(self) -> dict[str, Any]:
        """Nodes and edges as plain values."""
        nodes = [
            {
                "artifact_id": node.artifact_id,
                "kind": node.kind,
                "detail": node.detail,
                "path": node.path,
                "created_at": node.created_at.isoformat() if node.created_at else None,
                "entered": node.entered,
            }
            for node in self.nodes.values()
        ]
        edges = [{"parent": parent, "child": child} for parent, child in self.edges]
        return {"artifact_id": self.start, "nodes": nodes, "edges": edges}


def walk(
    catalog: cat.Catalog,
    artifact_id: str,
    direction: Direction = "both",
    depth: int | None = None,
) -> Graph:
    """The ancestors and descendants of an artifact, at most `depth` steps away. An unknown id gives
    a graph of one node that is not `entered`."""
    edges: set[tuple[str, str]] = set()
    ways = ("up", "down") if direction == "both" else (direction,)
    for way in ways:
        reached = _reached(artifact_id, up=way == "up", depth=depth)
        rows = catalog.rows(sa.select(reached.c.parent_id, reached.c.artifact_id).distinct())
        edges.update((row["parent_id"], row["artifact_id"]) for row in rows)
    ids = sorted({artifact_id, *(end for edge in edges for end in edge)})
    nodes = {each: Node(each) for each in ids}
    for some in cat.any_of(cat.artifacts.c.artifact_id, ids):
        for row in catalog.rows(sa.select(cat.artifacts).where(some)):
            detail = json.loads(row["detail"])
            id = row["artifact_id"]
            nodes[id] = Node(id, detail, row["path"], row["created_at"], True)
    return Graph(artifact_id, nodes, tuple(sorted(edges)))


def _reached(start: str, up: bool, depth: int | None) -> sa.CTE:
    """The edges upwards (or downwards) from `start`, by one recursive query."""
    pairs = cat.artifact_parents
    here, there = ("artifact_id", "parent_id") if up else ("parent_id", "artifact_id")
    # Without a depth limit no level is counted: the rows are then the edges themselves, and `union`
    # drops known ones, so that even a cycle terminates.
    level: list[Any] = [] if depth is None else [sa.literal(1).label("level")]
    first = sa.select(pairs.c.artifact_id, pairs.c.parent_id, *level)
    edges = first.where(pairs.c[here] == start).cte("up" if up else "down", recursive=True)
    if depth is not None:
        level = [(edges.c.level + 1).label("level")]
    further = sa.select(pairs.c.artifact_id, pairs.c.parent_id, *level)
    further = further.join(edges, pairs.c[here] == edges.c[there])
    if depth is not None:
        further = further.where(edges.c.level < depth)
    return edges.union(further)


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _facts(kind: str, detail: dict[str, Any]) -> str:
    plain = dict(_plain_values(detail))
    known = [name for name in FACTS.get(kind, ()) if name in plain]
    names = known or list(plain)[:MAX_FACTS]
    return ", ".join(_fact(name, plain[name]) for name in names)


def _plain_values(detail: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The values that a label can show, including one level down; ids are left to the edges."""
    for name, value in detail.items():
        if isinstance(value, dict):
            yield from ((n, v) for n, v in value.items() if _is_plain(n, v))
        elif _is_plain(name, value):
            yield name, value


def _is_plain(name: str, value: Any) -> bool:
    hidden = name.endswith("_id") or name in ("request", "template")
    return isinstance(value, str | int | float) and not hidden and value != ""


def _fact(name: str, value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    if name == "folder":
        text = text.rstrip("/").rsplit("/", 1)[-1]
    text = " ".join(text.split())
    if len(text) > MAX_FACT_CHARACTERS:
        text = text[: MAX_FACT_CHARACTERS - 1] + "…"
    return text if name in BARE else f"{name} {text}"


def text_tree(graph: Graph) -> str:
    """`start` with its ancestors and descendants; a shared node is drawn once."""
    ways = (("made from", graph.parents()), ("used by", graph.children()))
    branches = [(title, edges) for title, edges in ways if graph.start in edges]
    lines = [_line(graph.nodes[graph.start])]
    for title, edges in branches:
        last = title == branches[-1][0]
        lines.append(f"{LAST if last else NOT_LAST}{title}")
        lines += _branch(graph, edges, BLANK if last else BAR)
    if not branches:
        lines.append(f"{LAST}nothing else in this store")
    return "\n".join(lines) + "\n"


def _branch(graph: Graph, edges: dict[str, list[str]], indent: str) -> Iterator[str]:
    """Lines below `graph.start`. Uses a stack instead of recursion: chains can be long."""
    edges = _longest_first(edges)
    drawn = {graph.start}
    waiting = _siblings(edges[graph.start], indent)
    while waiting:
        each, indent, last = waiting.pop()
        again = each in drawn
        yield f"{indent}{LAST if last else NOT_LAST}{_line(graph.nodes[each], again)}"
        if not again:
            drawn.add(each)
            waiting += _siblings(edges.get(each, []), indent + (BLANK if last else BAR))


def _siblings(ids: list[str], indent: str) -> list[tuple[str, str, bool]]:
    """Entries to draw: (id, indent, whether it is the last sibling), the first at the end."""
    return [(each, indent, place == len(ids) - 1) for place, each in enumerate(ids)][::-1]


def _longest_first(edges: dict[str, list[str]]) -> dict[str, list[str]]:
    """Siblings with the longest path below them first: a node is drawn at its direct origin."""
    heights: dict[str, int] = {}
    try:
        for each in TopologicalSorter(edges).static_order():
            heights[each] = 1 + max((heights[below] for below in edges.get(each, [])), default=0)
    # ids are hashes over their parents' ids, so only a manual edit could create a cycle
    except CycleError:
        return edges
    return {
        each: sorted(below, key=lambda end: (-heights[end], end)) for each, below in edges.items()
    }


def _line(node: Node, again: bool = False) -> str:
    return f"{node.artifact_id}  {'(above)' if again else node.facts}".rstrip()


def mermaid(graph: Graph) -> str:
    """A Mermaid flowchart, parents to the left; `start` has a thick border."""
    names = {each: f"n{place}" for place, each in enumerate(graph.nodes)}
    lines = ["flowchart LR"]
    for each, node in graph.nodes.items():
        kind, colon, digits = each.partition(":")
        words = filter(None, (f"{kind}{colon}{digits[:HASH_SHOWN]}", node.facts))
        lines.append(f'    {names[each]}["{"<br/>".join(map(_mermaid_text, words))}"]')
    lines += [f"    {names[parent]} --> {names[child]}" for parent, child in graph.edges]
    lines.append(f"    style {names[graph.start]} stroke-width:3px")
    return "\n".join(lines) + "\n"


def _mermaid_text(text: str) -> str:
    """Escape characters with a meaning in labels as Mermaid's numbered entities."""
    return "".join(f"#{ord(c)};" if c in '"#&<>`\\' else c for c in text)


RENDERINGS = {"text": text_tree, "mermaid": mermaid}
