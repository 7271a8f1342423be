"""Tests of the graph around an artifact: reached artifacts, and its drawing."""

import json

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from tutti import storage
from tutti.storage import catalog as cat
from tutti.storage.read.lineage_graph import Graph, Node, _reached, mermaid, text_tree, walk


@pytest.fixture
def chain(catalog: storage.Catalog) -> storage.Catalog:
    """Return a store with two cells on one task set, one of them of a checkpoint trained on the
    other's attempts."""
    catalog.enter_artifact("index:1", {"documents": 3, "recall": {"recall_at_10": 0.98765}})
    catalog.enter_artifact("task_set:1", {"accepted": 4, "request": "hidden"}, ["index:1"])
    catalog.enter_artifact("cell:1", {"policy": "cap", "concurrency": 8}, ["task_set:1", "index:1"])
    catalog.enter_artifact("training_set:1", {"conversations": 2}, ["task_set:1"])
    catalog.enter_artifact("checkpoint:2", {"folder": "/a/tuned/"}, ["training_set:1", "base:0"])
    catalog.enter_artifact("cell:2", {}, ["checkpoint:2", "task_set:1"])
    catalog.enter_artifact("corpus:9", {"documents": 1})
    return catalog


def test_ancestors_and_descendants_are_reached_and_nothing_else(chain: storage.Catalog) -> None:
    graph = walk(chain, "training_set:1")
    assert set(graph.nodes) == {
        *("index:1", "task_set:1", "training_set:1"),
        *("checkpoint:2", "cell:2"),
    }
    assert set(walk(chain, "training_set:1", "up").nodes) == {
        *("index:1", "task_set:1", "training_set:1"),
    }
    assert set(walk(chain, "training_set:1", "down").nodes) == {
        *("training_set:1", "checkpoint:2", "cell:2"),
    }


def test_depth_counts_steps_both_ways(chain: storage.Catalog) -> None:
    near = walk(chain, "training_set:1", depth=1)
    assert set(near.nodes) == {"task_set:1", "training_set:1", "checkpoint:2"}
    assert walk(chain, "cell:2", depth=3).edges == walk(chain, "cell:2", depth=99).edges


def test_one_that_was_never_entered_is_a_node_of_its_own(chain: storage.Catalog) -> None:
    base = walk(chain, "checkpoint:2", "up").nodes["base:0"]
    assert not base.entered and base.facts == "not in this store"
    assert text_tree(walk(chain, "nothing:1")) == (
        "nothing:1  not in this store\n└── nothing else in this store\n"
    )


def test_the_tree_draws_a_shared_node_once_where_its_chain_is_longest(
    chain: storage.Catalog,
) -> None:
    assert text_tree(walk(chain, "cell:2")) == (
        "cell:2\n"
        "└── made from\n"
        "    ├── checkpoint:2  tuned\n"
        "    │   ├── training_set:1  conversations 2\n"
        "    │   │   └── task_set:1  accepted 4\n"
        "    │   │       └── index:1  documents 3, recall_at_10 0.9877\n"
        "    │   └── base:0  not in this store\n"
        "    └── task_set:1  (above)\n"
    )


def test_the_tree_has_both_ways(chain: storage.Catalog) -> None:
    assert text_tree(walk(chain, "task_set:1", depth=1)) == (
        "task_set:1  accepted 4\n"
        "├── made from\n"
        "│   └── index:1  documents 3, recall_at_10 0.9877\n"
        "└── used by\n"
        "    ├── cell:1  cap, concurrency 8\n"
        "    ├── cell:2\n"
        "    └── training_set:1  conversations 2\n"
    )


def test_a_long_chain_of_improvement_is_walked_and_drawn(catalog: storage.Catalog) -> None:
    """The chain is longer than Python's recursion limit."""
    length = 1500
    pairs = [{"artifact_id": f"c:{n + 1}", "parent_id": f"c:{n}"} for n in range(length)]
    with catalog.transaction() as connection:
        connection.execute(sa.insert(cat.artifact_parents), pairs)
    graph = walk(catalog, f"c:{length}")
    assert len(graph.nodes) == length + 1
    assert text_tree(graph).count("\n") == length + 2


@pytest.mark.parametrize("depth", [None, 4])
def test_a_cycle_entered_by_hand_ends(catalog: storage.Catalog, depth: int | None) -> None:
    catalog.enter_artifact("a:1", {}, ["b:1"])
    catalog.enter_artifact("b:1", {}, ["a:1"])
    graph = walk(catalog, "a:1", depth=depth)
    assert set(graph.nodes) == {"a:1", "b:1"}
    assert "b:1" in text_tree(graph) and "n1 --> n0" in mermaid(graph)


def test_labels_cannot_break_out_of_the_picture() -> None:
    """Names come from users' suites and registries."""
    hostile = Node("cell:1", {"name": 'a "b" #1; <c>\\n'}, entered=True)
    graph = Graph("cell:1", {"cell:1": hostile}, ())
    assert "a #34;b#34; #35;1; #60;c#62;#92;n" in mermaid(graph)


def test_pictures_have_every_edge_and_mark_what_was_asked(chain: storage.Catalog) -> None:
    graph = walk(chain, "checkpoint:2")
    assert mermaid(graph).startswith("flowchart LR\n")
    assert mermaid(graph).count("-->") == len(graph.edges)
    name = f"n{list(graph.nodes).index('checkpoint:2')}"
    assert f"style {name} stroke-width" in mermaid(graph)


def test_facts_of_a_kind_we_do_not_know_are_its_first_plain_values() -> None:
    node = Node("widget:1", {"a": 1, "b_id": "x", "c": [1], "d": 0.12345, "e": "z" * 99, "f": 2})
    entered = Node(node.artifact_id, node.detail, entered=True)
    assert entered.facts == f"a 1, d 0.1235, e {'z' * 39}…"


def test_json_has_whole_ids_detail_and_edges(chain: storage.Catalog) -> None:
    decoded = json.loads(json.dumps(walk(chain, "cell:1", "up", depth=1).as_json()))
    assert decoded["artifact_id"] == "cell:1"
    assert {"parent": "index:1", "child": "cell:1"} in decoded["edges"]
    cell = next(node for node in decoded["nodes"] if node["artifact_id"] == "cell:1")
    assert (cell["kind"], cell["detail"]["policy"], cell["entered"]) == ("cell", "cap", True)


@pytest.mark.parametrize("depth", [None, 2])
def test_the_query_is_one_that_postgresql_has_too(depth: int | None) -> None:
    """Without a server for the other tests, only the query's text is checked."""
    edges = _reached("x", up=True, depth=depth)
    dialect: sa.Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    text = str(sa.select(edges).compile(dialect=dialect))
    assert "WITH RECURSIVE up(" in text and " UNION SELECT" in " ".join(text.split())
