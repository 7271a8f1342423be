"""An executable workflow: steps and edges, drawn from a theme.

In: a theme, a random generator, depth and branches. Out: a `Flow`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from tutti.tasks.synthesis.programs.workflow.themes import Check, Question, Theme

StepKind = Literal["ask", "check", "act", "end"]
Value = str | int


@dataclass(frozen=True)
class Step:
    """A node of the workflow."""

    step_id: str
    kind: StepKind
    tool: str = ""
    finds: str = ""
    """The fact that an ask or a check finds out."""


@dataclass(frozen=True)
class Edge:
    """An edge from a step to the next, for some values, for values within bounds, or for all."""

    source: str
    target: str
    values: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None

    def admits(self, value: Value | None) -> bool:
        """Whether the edge is taken for a value."""
        if self.values:
            return value in self.values
        above = self.least is None or (isinstance(value, int) and value >= self.least)
        return above and (self.most is None or (isinstance(value, int) and value <= self.most))


@dataclass(frozen=True)
class Flow:
    """A graph; it begins with its first step."""

    steps: tuple[Step, ...]
    edges: tuple[Edge, ...]

    def step(self, step_id: str) -> Step:
        """Return the step with an id."""
        return next(each for each in self.steps if each.step_id == step_id)

    def after(self, step_id: str, value: Value | None) -> Step:
        """Return the next step. Raises LookupError if no edge admits the value."""
        for edge in self.edges:
            if edge.source == step_id and edge.admits(value):
                return self.step(edge.target)
        raise LookupError(f"no edge leads on from {step_id} with {value!r}")

    def walk(self, found: Mapping[str, Value]) -> list[Step]:
        """The steps of a case, without the end, for the values that asks and checks return."""
        path, step = [], self.steps[0]
        while step.kind != "end":
            path.append(step)
            step = self.after(step.step_id, found.get(step.finds))
        return path


class Drawer:
    """Generator of a flow: layers of decisions, with edges to the next layer or a closing act."""

    def __init__(self, rng: Random, theme: Theme, branches: int) -> None:
        self._rng, self._theme, self._branches = rng, theme, branches
        self._steps: list[Step] = []
        self._edges: list[Edge] = []
        self._between = rng.sample(theme.between, len(theme.between))
        self._closing: dict[str, str] = {}

    def draw(self, depth: int) -> Flow:
        """Return a flow whose longest path has `depth` decisions."""
        rng, theme = self._rng, self._theme
        first, *rest = rng.sample(theme.questions, len(theme.questions))
        others: list[Question | Check] = [*rest, *theme.checks]
        rng.shuffle(others)
        layers: list[list[Question | Check]] = [[first]]
        layers += [others[2 * n : 2 * n + 2] for n in range(depth - 1)]
        places = [
            [
                self._add("ask" if isinstance(each, Question) else "check", each.tool, each.finds)
                for each in layer
            ]
            for layer in layers
        ]
        for layer, steps, after in zip(layers, places, [*places[1:], []], strict=True):
            for position, decision in enumerate(layer):
                self._lead_on(steps[position], decision, after[position:] + after[:position])
        end = Step(f"N{len(self._steps)}", "end")
        self._steps.append(end)
        self._edges += [Edge(place, end.step_id) for place in self._closing.values()]
        return _numbered(self._steps, self._edges)

    def _add(self, kind: StepKind, tool: str, finds: str = "") -> str:
        step = Step(f"N{len(self._steps)}", kind, tool, finds)
        self._steps.append(step)
        return step.step_id

    def _lead_on(self, source: str, decision: Question | Check, after: Sequence[str]) -> None:
        """Add the edges of a decision: they reach each step of `after`; others may close the
        case."""
        edges = self._conditions(source, decision)
        closing = self._rng.sample(self._theme.closing, len(edges))
        for position, edge in enumerate(edges):
            leads = bool(after) and (position < len(after) or self._rng.random() < 0.5)
            between = leads and self._between and self._rng.random() < 0.35
            tool = closing[position].tool
            if between:
                target = self._add("act", self._between.pop().tool)
            elif leads:
                target = after[position % len(after)]
            elif tool in self._closing:
                target = self._closing[tool]
            else:
                target = self._closing[tool] = self._add("act", tool)
            self._edges.append(replace(edge, target=target))
            if between:
                self._edges.append(Edge(target, after[position % len(after)]))

    def _conditions(self, source: str, decision: Question | Check) -> list[Edge]:
        """Return edges without targets that together admit each value once."""
        rng, values = self._rng, list(decision.values)
        if values:
            rng.shuffle(values)
            groups = [values[:1], values[1:]] if self._branches == 2 else [[v] for v in values]
            return [Edge(source, "", tuple(group)) for group in groups]
        assert isinstance(decision, Check), f"{decision.tool} has neither values nor bounds"
        span = range(decision.least + 1, decision.most)
        cuts = sorted(rng.sample(span, self._branches - 1))
        lows: list[int | None] = [None, *(cut + 1 for cut in cuts)]
        highs: list[int | None] = [*cuts, None]
        return [Edge(source, "", (), low, high) for low, high in zip(lows, highs, strict=True)]


def _numbered(steps: Sequence[Step], edges: Sequence[Edge]) -> Flow:
    """Return the flow with its steps in the order in which they are reached, called S1, S2, …"""
    order = [steps[0].step_id]
    for place in order:
        order += dict.fromkeys(
            e.target for e in edges if e.source == place and e.target not in order
        )
    names = {place: f"S{number}" for number, place in enumerate(order, 1)}
    known = {each.step_id: each for each in steps}
    placed = [replace(known[place], step_id=names[place]) for place in order]
    led = [replace(e, source=names[e.source], target=names[e.target]) for e in edges]
    led.sort(key=lambda edge: int(edge.source[1:]))
    return Flow(tuple(placed), tuple(led))
