"""Sums of costs of which parts may be unknown."""

from hypothesis import given
from hypothesis import strategies as st

from tutti.storage import Cost

Tree = float | None | list["Tree"]
PARTS = st.none() | st.floats(0, 1e3).map(lambda usd: round(usd, 6))
TREES = st.recursive(PARTS, lambda inner: st.lists(inner, max_size=6), max_leaves=30)


def sum_of(tree: "Tree") -> Cost:
    """The cost of a tree, its branches summed first."""
    if not isinstance(tree, list):
        return Cost.of([tree])
    total = Cost()
    for branch in tree:
        total.include(sum_of(branch))
    return total


def leaves(tree: "Tree") -> list[float | None]:
    """The parts of a tree."""
    return [x for branch in tree for x in leaves(branch)] if isinstance(tree, list) else [tree]


@given(TREES)
def test_a_sum_is_exact_only_if_all_its_parts_are_known(tree: "Tree") -> None:
    """In whatever order and grouping they are added; as text it is at least what is known."""
    cost, parts = sum_of(tree), leaves(tree)
    known = [part for part in parts if part is not None]
    assert abs(cost.known_usd - sum(known)) < 1e-6
    assert cost.unknown == len(parts) - len(known)
    assert (cost.usd is None) == (None in parts)
    assert f"{cost:.4f}".startswith("at least ") == (None in parts)
    assert f"{cost:.4f}".removeprefix("at least ") == f"{cost.known_usd:.4f}"
