"""Workflows: a flowchart is read whole or not at all, executed, and paths are measured."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.benchmarks.workflow import BadWorkflow, Edge, Node, Workflow, read_mermaid

SHOP = """flowchart TD
    %% how returns go
    start([Start]) --> ask[Ask for the order; be polite]
    ask --> known{Is it known?}
    known -->|yes| paid{Paid?}
    known -- no --> ask
    paid -->|"yes"| refund[[call refund]]
    paid -->|no| bye((Bye)); refund --> bye
    style bye fill:#f9f
"""


def yes(workflow: Workflow) -> list[str]:
    """The path when every question is answered yes."""
    return workflow.walk(lambda node, edges: next(e for e in edges if e.condition == "yes"))


def test_a_flowchart_is_read() -> None:
    """Every shape, both ways to write a condition, several statements on a line."""
    shop = read_mermaid(SHOP)
    assert list(shop.nodes) == ["start", "ask", "known", "paid", "refund", "bye"]
    assert shop.nodes["ask"].label == "Ask for the order; be polite"
    assert [n.id for n in shop.nodes.values() if n.decision] == ["known", "paid"]
    assert shop.nodes["refund"].label == "call refund" and shop.nodes["bye"].label == "Bye"
    assert Edge("known", "ask", "no") in shop.edges and Edge("paid", "refund", "yes") in shop.edges
    assert shop.starts == ["start"] and len(shop.edges) == 7


def test_chains_groups_and_other_arrows() -> None:
    """A --> B --> C, A & B --> C, dotted and thick arrows; a loop starts where it is written."""
    assert read_mermaid("A-->B-->C").edges == (Edge("A", "B"), Edge("B", "C"))
    assert len(read_mermaid("A & B --> C & D; D -->|x| E").edges) == 5
    assert read_mermaid("A -. maybe .-> B\nB ==> A").edges == (
        Edge("A", "B", "maybe"),
        Edge("B", "A"),
    )
    assert read_mermaid("graph LR; B-->A; A-->B").starts == ["B"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A --> B\nA ~> C", "line 2: not understood from"),
        ("A -->", "line 1: no step at"),
        ("graph TD\n--> A", "line 2: no step at"),
        ("graph TD\n", "has no step"),
    ],
)
def test_what_is_not_understood_is_an_error(text: str, said: str) -> None:
    """A line that were left out would make right paths illegal."""
    with pytest.raises(BadWorkflow, match=said):
        read_mermaid(text)


def test_a_workflow_is_executed() -> None:
    """The walk asks at forks only, ends where nothing follows, and does not run for ever."""
    shop = read_mermaid(SHOP)
    assert yes(shop) == ["start", "ask", "known", "paid", "refund", "bye"]
    with pytest.raises(BadWorkflow, match="no end after"):
        shop.walk(lambda node, edges: next(e for e in edges if e.condition == "no"), "ask")
    with pytest.raises(BadWorkflow, match="does not follow"):
        shop.walk(lambda node, edges: Edge("known", "bye"))
    with pytest.raises(BadWorkflow, match="no step 'x'"):
        shop.following("x")


def test_paths_are_measured() -> None:
    """A skipped step costs accuracy and is one illegal transition."""
    shop = read_mermaid(SHOP)
    gold = yes(shop)
    skipped = [step for step in gold if step != "paid"]
    score = shop.score(skipped, gold)
    assert score.node_accuracy == 5 / 6
    assert score.illegal == (("known", "refund"),) and score.illegal_rate == 1 / 4
    assert shop.score(["made", "up"], gold).illegal_rate == 1.0
    assert shop.score([], []).node_accuracy == 1.0 and shop.score([], gold).node_accuracy == 0.0


@given(st.lists(st.sampled_from(["yes", "no"]), min_size=40, max_size=40))
def test_the_oracle_s_own_path_is_legal(answers: list[str]) -> None:
    """Whatever is answered, a path that the workflow walked is fully right and fully legal."""
    shop = read_mermaid(SHOP)
    told = iter(answers)

    def choose(node: Node, edges: Sequence[Edge]) -> Edge:
        answer = next(told, "yes")
        return next(edge for edge in edges if edge.condition == answer)

    path = shop.walk(choose)
    score = shop.score(path, path)
    assert score.node_accuracy == 1.0 and not score.illegal
