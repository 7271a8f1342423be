"""The questions: each template draws one from the graph, or None if the draw fits none.

Every answer is unique in the graph, and is a name or number that the question does not contain.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from random import Random

from tutti.tasks.synthesis.domains import Action, DomainSpec, DomainTask, Scenario
from tutti.tasks.synthesis.programs.base.program import Knobs, call, offered_tools, shared_split
from tutti.tasks.synthesis.programs.knowledge_graph.graph import BY_NAME, Graph, Place
from tutti.tasks.synthesis.programs.knowledge_graph.world import KINDS, SPARE, Relation

HELD_OUT = frozenset({"superlative"})
LEAST_COUNT = 10
"""A smaller count would be guessed too often."""
TRIES = 20
"""Draws of a harder variant."""
MOST_MEMBERS = 8
"""Largest set whose members are compared one by one."""
OPENINGS = (
    "You want to know {}.",
    "For a report you have to find out {}.",
    "You and a friend disagree about {}, and you want to settle it.",
    "The last line of your quiz sheet is about {}.",
    "Before an article of yours is printed, you have to look up {}.",
)


@dataclass(frozen=True)
class Question:
    """The result of a template."""

    asked: str
    answer: str
    starts: Sequence[Place]
    actions: Sequence[Action]
    slots: dict[str, str]
    hops: int


@dataclass
class Asker:
    """Draws questions from an instance and writes their text."""

    graph: Graph
    rng: Random
    knobs: Knobs
    parent: DomainTask | None = None
    """A question that the next ones are harder variants of."""

    def draw(self, template: str) -> DomainTask | None:
        """Return a candidate of a template."""
        question = TEMPLATES[template](self)
        if question is None:
            return None
        entities = tuple(dict.fromkeys(each.start for each in question.starts))
        split = shared_split(template, entities, HELD_OUT)
        if split is None:
            return None
        needed = {each.name for each in question.actions}
        extra = self.knobs["tools"]
        tools = offered_tools(self.graph.domain, sorted(needed), extra, SPARE)
        known = "You know nothing else about it." if self.rng.random() < 0.5 else ""
        return DomainTask(
            family=self.graph.domain.name,
            template=template,
            split=split,
            sources=entities,
            difficulty={
                "hops": question.hops,
                "distractors": self.knobs["distractors"],
                "tools": len(tools),
                "steps": len(question.actions),
            },
            slots=question.slots,
            world=DomainSpec(
                domain=self.graph.domain.domain_id,
                scenario=Scenario(
                    reason=self.rng.choice(OPENINGS).format(question.asked), known=known
                ),
                actions=tuple(question.actions),
                communicate=(question.answer,),
                rules=("looked_up",),
                tools=tools,
            ),
        )

    def harder(self, parent: DomainTask) -> DomainTask | None:
        """Return a question of the same template about the same start, one hop further on the same
        path; None if there is none."""
        asker = replace(self, parent=parent)
        drawn = (asker.draw(parent.template) for _ in range(TRIES))
        hops = parent.difficulty["hops"]
        return next((each for each in drawn if each and each.difficulty["hops"] > hops), None)

    def walk(self, hops: int) -> Place | None:
        """Return a random walk; with a parent, its walk and one more hop."""
        if self.parent is None:
            return self.graph.walk(self.rng, hops)
        place = self.graph.place(*self.parent.sources[0].split("/"))
        for name in filter(None, self.parent.slots["path"].split(">")):
            place = self.graph.step(place, BY_NAME[name])
        place = self.graph.step(place, self.rng.choice(self.graph.forward[place.kind]))
        return place if len(set(place.seen)) == len(place.seen) else None

    def hops(self, least: int = 1) -> int:
        """Return the number of hops of the next question."""
        if self.parent is not None:
            return self.parent.difficulty["hops"] + 1
        return self.rng.randint(least, max(least, self.knobs["hops"]))


def _chain(asker: Asker) -> Question | None:
    hops = asker.hops()
    place = asker.walk(hops)
    if place is None:
        return None
    answer = asker.graph.name_of(place.kind, place.entity_id)
    asked = f"the name of {place.words}" if place.kind in ("person", "firm") else place.words
    slots = {"start": place.slot, "path": ">".join(place.path)}
    return Question(asked, answer, [place], place.actions, slots, hops)


def _number(asker: Asker) -> Question | None:
    hops = asker.hops()
    place = asker.walk(hops - 1)
    if place is None:
        return None
    fact = asker.rng.choice(KINDS[place.kind].facts)
    answer = str(asker.graph.record(place.kind, place.entity_id)[fact.name])
    slots = {"start": place.slot, "path": ">".join(place.path), "fact": fact.name}
    actions = [*place.actions, call("facts_of", entity_id=place.entity_id)]
    return Question(fact.of.format(place.words), answer, [place], actions, slots, hops)


def _comparison(asker: Asker) -> Question | None:
    graph, rng = asker.graph, asker.rng
    hops = asker.hops(least=2)
    first = asker.walk(hops - 1)
    if first is None:
        return None
    kind = first.start.split("/")[0]
    second = graph.place(kind, rng.choice(list(graph.domain.records[kind])))
    for name in first.path:
        second = graph.step(second, BY_NAME[name])
    if set(first.seen) & set(second.seen) or len(set(second.seen)) < len(second.seen):
        return None
    ids = [first.entity_id, second.entity_id]
    fact, pick, word, found = _extreme(asker, first.kind, ids)
    records = [graph.record(first.kind, each) for each in ids]
    if any(records[0][name] == records[1][name] for name in (fact, "name")):
        return None
    asked = f"which is the {word} by {fact.replace('_', ' ')}, {first.words} or {second.words}"
    slots = {"start": first.slot, "other": second.slot, "path": ">".join(first.path)}
    slots |= {"fact": fact, "pick": pick}
    actions = [*first.actions, *second.actions, *(call("facts_of", entity_id=each) for each in ids)]
    return Question(asked, found, [first, second], actions, slots, hops)


def _extreme(asker: Asker, kind: str, ids: Sequence[str]) -> tuple[str, str, str, str]:
    """Return a fact, ``least`` or ``most`` of it, the adjective for that, and the entity's name."""
    fact, pick = asker.rng.choice(KINDS[kind].facts), asker.rng.choice(("least", "most"))
    records = sorted((asker.graph.record(kind, each) for each in ids), key=itemgetter(fact.name))
    if pick == "least":
        return fact.name, pick, fact.lowest, records[0]["name"]
    return fact.name, pick, fact.highest, records[-1]["name"]


def _members(asker: Asker, hops: int) -> tuple[Place, Relation, list[str]] | None:
    """Return the end of a walk, a relation that leads to it, and the sources of that relation."""
    place = asker.walk(max(0, hops - 2))
    if place is None or not asker.graph.inverses(place.kind):
        return None
    one = asker.rng.choice(asker.graph.inverses(place.kind))
    return place, one, asker.graph.back[one.name, place.entity_id]


def _intersection(asker: Asker) -> Question | None:
    graph, rng = asker.graph, asker.rng
    if (found := _members(asker, asker.hops())) is None:
        return None
    first, one, members = found
    others = [r for r in graph.forward[one.source] if r.name != one.name and r.back]
    if len(members) < 2 or not others:
        return None
    wanted, two = rng.choice(members), rng.choice(others)
    second = graph.place(two.target, graph.record(one.source, wanted)[two.name])
    both = set(members) & set(graph.back[two.name, second.entity_id])
    if len(both) > 1 or wanted in first.seen or second.entity_id in first.seen:
        return None
    asked = f"the only {one.source} that is {one.back.format(first.words)} and at the same time "
    asked += two.back.format(second.words)
    slots = {"start": first.slot, "path": ">".join(first.path), "back": one.inverse}
    slots |= {"other": second.slot, "other_back": two.inverse}
    actions = [*first.actions, first.follow(one.inverse)]
    actions += [*second.actions, second.follow(two.inverse)]
    answer = graph.name_of(one.source, wanted)
    return Question(asked, answer, [first, second], actions, slots, len(first.path) + 1)


def _counting(asker: Asker) -> Question | None:
    graph, hops = asker.graph, asker.hops()
    if (start := _members(asker, hops)) is None:
        return None
    place, one, members = start
    calls = [place.follow(one.inverse)]
    words, found = one.back.format(place.words), members
    fan: tuple[str, ...] = (one.inverse,)
    source = one.source
    if hops > 1 and graph.inverses(one.source):
        two = asker.rng.choice(graph.inverses(one.source))
        calls += [call("follow", entity_id=e, relation=two.inverse) for e in members]
        found = [x for member in members for x in graph.back[two.name, member]]
        each = f"any of the {KINDS[one.source].plural} {words}"
        words, fan, source = two.back.format(each), (one.inverse, two.inverse), two.source
    if len(found) < LEAST_COUNT:
        return None
    asked = f"how many {KINDS[source].plural} there are {words}"
    slots = {"start": place.slot, "path": ">".join(place.path), "fan": ">".join(fan)}
    actions = [*place.actions, *calls]
    size = len(place.path) + len(fan)
    return Question(asked, str(len(found)), [place], actions, slots, size)


def _superlative(asker: Asker) -> Question | None:
    if (start := _members(asker, asker.hops())) is None:
        return None
    place, one, members = start
    if not 2 <= len(members) <= MOST_MEMBERS or set(members) & set(place.seen):
        return None
    fact, pick, word, answer = _extreme(asker, one.source, members)
    asked = f"the {word} of the {KINDS[one.source].plural} {one.back.format(place.words)}"
    asked += f", by {fact.replace('_', ' ')}"
    slots = {"start": place.slot, "path": ">".join(place.path), "back": one.inverse}
    slots |= {"fact": fact, "pick": pick}
    actions = [*place.actions, place.follow(one.inverse)]
    actions += [call("facts_of", entity_id=each) for each in members]
    return Question(asked, answer, [place], actions, slots, len(place.path) + 1)


TEMPLATES: dict[str, Callable[[Asker], Question | None]] = {
    "chain": _chain,
    "number": _number,
    "comparison": _comparison,
    "intersection": _intersection,
    "counting": _counting,
    "superlative": _superlative,
}
