"""A workflow as a graph that can be executed: an oracle for agents that follow one.

In: a flowchart in Mermaid's notation, as FlowBench writes workflows. Out: a `Workflow`, which says
what may come next, walks itself when it is told how decisions go, and measures an agent's path
against the right one, without a judge.

Read are ``graph`` and ``flowchart``, nodes in any of Mermaid's brackets (``{}`` is a decision),
arrows with and without conditions (``A -->|yes| B``, ``A -- yes --> B``), chains, and ``A & B``.
Lines about looks (``style``, ``classDef``, ``class``, ``linkStyle``), frames of subgraphs and
comments are passed over; any other line that is not understood is an error with its number.
"""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tutti.tasks.benchmarks.errors import BenchmarkError

MAX_STEPS = 1000  # of a walk: a workflow may loop, and a chooser may loop with it
_NODE = re.compile(
    r"\s*(?P<id>[A-Za-z0-9_]+)\s*"
    r"(?P<label>\[\[.*?\]\]|\[\(.*?\)\]|\[.*?\]|\(\(.*?\)\)|\(\[.*?\]\)|\(.*?\)"
    r"|\{\{.*?\}\}|\{.*?\}|>.*?\])?(?::::\w+)?"
)
_ARROW = re.compile(
    r"\s*(?:(?:-->|---|-\.->|==>)\s*(?:\|(?P<after>[^|]*)\|)?"
    r"|--\s+(?P<plain>.+?)\s*-->|-\.\s+(?P<dotted>.+?)\s*\.->|==\s+(?P<thick>.+?)\s*==>)"
)
_PASSED_OVER = re.compile(
    r"(?:graph|flowchart)\b|(?:style|classDef|class|linkStyle|click|subgraph|direction)\s|end\b|%%"
)


class BadWorkflow(BenchmarkError):
    """A flowchart that cannot be read, or a step that it does not have."""


@dataclass(frozen=True)
class Node:
    """One step."""

    id: str
    label: str
    decision: bool
    """It asks something, and its edges are the answers."""


@dataclass(frozen=True)
class Edge:
    """What may follow what, and when."""

    source: str
    target: str
    condition: str = ""


@dataclass(frozen=True)
class PathScore:
    """An agent's path against the right one."""

    node_accuracy: float
    """Steps in common, in order, as a share of the longer path; 1.0 for two empty ones."""
    illegal: tuple[tuple[str, str], ...]
    """Transitions that the workflow does not have, in order."""
    illegal_rate: float
    """Their share of all transitions; 0.0 without any."""


@dataclass(frozen=True)
class Workflow:
    """A graph of steps."""

    nodes: Mapping[str, Node]
    edges: tuple[Edge, ...]

    @property
    def starts(self) -> list[str]:
        """Steps that nothing leads to; where all are led to, the first that is written."""
        targets = {edge.target for edge in self.edges}
        return [node for node in self.nodes if node not in targets] or list(self.nodes)[:1]

    def following(self, node: str) -> list[Edge]:
        """What may come after `node`. Raises BadWorkflow for a step that is not there."""
        if node not in self.nodes:
            raise BadWorkflow(f"no step {node!r}; there are {', '.join(self.nodes)}")
        return [edge for edge in self.edges if edge.source == node]

    def walk(self, choose: Callable[[Node, Sequence[Edge]], Edge], start: str = "") -> list[str]:
        """The steps from `start` (the first start) to an end; `choose` is asked where several
        may follow. Raises BadWorkflow for a choice that is none of them, and after MAX_STEPS."""
        if not self.nodes:
            return []
        path = [start or self.starts[0]]
        while following := self.following(path[-1]):
            edge = following[0] if len(following) == 1 else choose(self.nodes[path[-1]], following)
            if edge not in following:
                raise BadWorkflow(f"{edge} does not follow {path[-1]!r}")
            path.append(edge.target)
            if len(path) > MAX_STEPS:
                raise BadWorkflow(f"the path has no end after {MAX_STEPS} steps")
        return path

    def score(self, path: Sequence[str], gold: Sequence[str]) -> PathScore:
        """Measure `path` against `gold`. Steps that the workflow does not have make each of their
        transitions illegal."""
        allowed = {(edge.source, edge.target) for edge in self.edges}
        moves = list(itertools.pairwise(path))
        illegal = tuple(move for move in moves if move not in allowed)
        longer = max(len(path), len(gold))
        accuracy = _common(path, gold) / longer if longer else 1.0
        return PathScore(accuracy, illegal, len(illegal) / len(moves) if moves else 0.0)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the longest sequence that is in both, in order."""
    row = [0] * (len(other) + 1)
    for mine in one:
        before = 0
        for place, theirs in enumerate(other, 1):
            above = row[place]
            row[place] = before + 1 if mine == theirs else max(above, row[place - 1])
            before = above
    return row[-1]


def read_mermaid(text: str) -> Workflow:
    """Read a flowchart. Raises BadWorkflow with the line's number."""
    nodes: dict[str, Node] = {}
    edges: list[Edge] = []
    for number, line in enumerate(text.splitlines(), 1):
        for statement in filter(None, (part.strip() for part in _statements(line))):
            if not _PASSED_OVER.match(statement):
                _read_statement(statement, number, nodes, edges)
    if not nodes:
        raise BadWorkflow("the flowchart has no step")
    return Workflow(nodes, tuple(dict.fromkeys(edges)))


def _statements(line: str) -> list[str]:
    """A line's statements: semicolons part them, but not inside brackets."""
    return re.split(r";(?![^\[({]*[\])}])", line)


def _read_statement(statement: str, number: int, nodes: dict[str, Node], edges: list[Edge]) -> None:
    sources, at = _read_group(statement, 0, number, nodes)
    while at < len(statement):
        arrow = _ARROW.match(statement, at)
        if arrow is None:
            raise BadWorkflow(f"line {number}: not understood from {statement[at:]!r}")
        condition = next((found for found in arrow.groups() if found is not None), "")
        targets, at = _read_group(statement, arrow.end(), number, nodes)
        condition = condition.strip().strip('"')
        edges += [Edge(source, target, condition) for source in sources for target in targets]
        sources = targets


def _read_group(
    statement: str, at: int, number: int, nodes: dict[str, Node]
) -> tuple[list[str], int]:
    """One node, or several joined by ``&``; their ids, and where the statement goes on."""
    found: list[str] = []
    while True:
        match = _NODE.match(statement, at)
        if match is None:
            raise BadWorkflow(f"line {number}: no step at {statement[at:]!r}")
        node_id, label = match["id"], match["label"]
        if label is not None or node_id not in nodes:
            text = re.sub(r"^[\[({>\s]+|[\])}\s]+$", "", label or node_id).strip('"')
            decision = bool(label) and label.startswith("{") and not label.startswith("{{")
            nodes[node_id] = Node(node_id, text, decision)
        found.append(node_id)
        at = match.end()
        joint = re.compile(r"\s*&").match(statement, at)
        if joint is None:
            rest = statement[at:]
            return found, len(statement) if not rest.strip() else at
        at = joint.end()
