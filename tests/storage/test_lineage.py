"""Tests of ids as content hashes: equal inputs give equal ids, different ones do not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti import storage
from tutti.storage.base.lineage import artifact_id, canonical_json, content_hash

SCALARS = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)
FINITE = SCALARS.filter(lambda x: not isinstance(x, float) or abs(x) != float("inf"))
CONTENT = st.recursive(
    FINITE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def backwards(content: Any) -> Any:
    """Return the same value with every dictionary built in the opposite order."""
    if isinstance(content, dict):
        return {key: backwards(value) for key, value in reversed(content.items())}
    return [backwards(item) for item in content] if isinstance(content, list) else content


@given(CONTENT, st.lists(st.text(max_size=8), max_size=5), st.randoms())
def test_id_depends_on_content_and_the_set_of_parents_alone(
    content: Any, parents: list[str], rng: Any
) -> None:
    """The order of keys, the order of parents and a duplicate parent have no effect."""
    shuffled = parents + parents[:1]
    rng.shuffle(shuffled)
    assert artifact_id("x", content, parents) == artifact_id("x", backwards(content), shuffled)


@given(CONTENT, CONTENT)
def test_different_content_gives_different_ids(a: Any, b: Any) -> None:
    """Ids are equal exactly if the canonical forms are."""
    same = canonical_json(a) == canonical_json(b)
    assert (artifact_id("x", a) == artifact_id("x", b)) == same


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_lacks_are_refused(number: float) -> None:
    """NaN is not equal to itself, so content with it can have no id."""
    with pytest.raises(ValueError, match="JSON"):
        artifact_id("x", {"deep": [{"down": number}]})


def test_content_without_a_json_form_is_refused() -> None:
    """A set or an object would hash differently in each run."""
    with pytest.raises(TypeError):
        artifact_id("x", {"names": {"a", "b"}})


def test_ids_stay_what_they_were() -> None:
    """Later versions must find stored ids: these literals never change."""
    assert artifact_id("task_set", {"b": 1, "a": "é"}, ["y", "x"]) == "task_set:6e509d1af44a5841"
    assert content_hash(b"raw") == content_hash(b"raw") != content_hash("raw")


def test_parents_and_children_are_found_both_ways(catalog: storage.Catalog) -> None:
    """`tutti lineage` follows both directions; a parent need not be entered itself."""
    catalog.enter_artifact("index:1", {"documents": 3})
    catalog.enter_artifact("task_set:1", {}, ["index:1"])
    catalog.enter_artifact("cell:1", {}, ["task_set:1", "index:1", "task_set:1"])
    assert catalog.parents("cell:1") == ["index:1", "task_set:1"]
    assert catalog.children("index:1") == ["cell:1", "task_set:1"]
    assert catalog.parents("index:1") == catalog.children("cell:1") == []
    assert catalog.artifact("nothing:1") is None


def test_an_artifact_keeps_detail_and_a_path_relative_to_its_store(
    catalog: storage.Catalog,
) -> None:
    """The row returns the entered values; a store that is moved keeps working."""
    folder = catalog.home.artifact_folder("index:1")
    catalog.enter_artifact("index:1", {"documents": 3}, path=folder)
    row = catalog.artifact("index:1")
    assert row is not None
    assert (row["kind"], row["detail"], row["path"]) == ("index", {"documents": 3}, folder)
    stored = storage.query("select path from artifacts", catalog.home)
    assert stored == [{"path": "artifacts/index-1"}]


def test_entering_an_artifact_again_changes_nothing(catalog: storage.Catalog) -> None:
    """The first entry defines its detail, its path and its creation time."""
    folder = catalog.home.artifact_folder("checkpoint:1")
    catalog.enter_artifact("checkpoint:1", {"card": "whole"}, path=folder)
    before = catalog.artifact("checkpoint:1")
    catalog.enter_artifact("checkpoint:1", {"folder": "elsewhere"})
    assert catalog.artifact("checkpoint:1") == before
