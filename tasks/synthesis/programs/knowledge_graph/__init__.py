"""Multi-hop questions over a generated graph of people, firms, towns, rivers and books."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from random import Random

from tutti.tasks.agents import Oracle
from tutti.tasks.synthesis.domains import Domain, DomainTask
from tutti.tasks.synthesis.programs.base.declared import DeclaredProgram
from tutti.tasks.synthesis.programs.base.program import (
    EVOLVED,
    KNOB,
    Knob,
    Knobs,
    leaks,
    take_turns,
    told_by,
    with_harder,
)
from tutti.tasks.synthesis.programs.knowledge_graph.graph import Graph
from tutti.tasks.synthesis.programs.knowledge_graph.solving import solve_question
from tutti.tasks.synthesis.programs.knowledge_graph.templates import HELD_OUT, TEMPLATES, Asker
from tutti.tasks.synthesis.programs.knowledge_graph.world import KINDS, build_records, table_of


class KnowledgeGraph(DeclaredProgram):
    """Questions over a graph. Nothing is written; a task is done when its answer is communicated. A
    task's entities are those that its question names; entities on the path belong to every
    split."""

    name = "knowledge_graph"
    version = "2"
    about = "multi-hop questions over a generated graph with invented names"
    knobs: Mapping[str, Knob] = {
        "hops": Knob(3, 1, 5, "the most relations and facts from what is named to the answer"),
        "distractors": Knob(2, 0, 6, "parallel relations, and triples of pairs sharing a name"),
        "tools": Knob(2, 0, 4, "tools offered beside those that a task needs"),
        KNOB: EVOLVED,
    }
    held_out = HELD_OUT
    folder = Path(__file__).parent

    def build(self, rng: Random, knobs: Knobs) -> Domain:
        """Return a graph of 290 entities."""
        distractors = knobs["distractors"]
        domain = self.domain(knobs, build_records(rng, distractors))
        kinds = (table_of(kind, distractors) for kind in KINDS.values())
        return domain.model_copy(update={"tables": (*kinds, *domain.tables)})

    def propose(self, domain: Domain, rng: Random, knobs: Knobs) -> Iterator[DomainTask]:
        """Yield questions, alternating between all templates."""
        asker = Asker(Graph(domain), rng, knobs)
        draws = {template: partial(asker.draw, template) for template in TEMPLATES}
        told = told_by(domain)

        def harder(parent: DomainTask) -> DomainTask | None:
            found = asker.harder(parent)
            return None if found is None or leaks(found, told) else found

        return with_harder(take_turns(draws, told), harder, knobs[KNOB], "hops")

    def solve(self, task: DomainTask) -> Oracle:
        """Follow the path in the slots with the tools."""
        return solve_question(task)
