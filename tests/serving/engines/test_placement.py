"""Engines that run at the same time share a machine's GPUs, or are refused before any starts."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.gpus import Gpu, Inventory
from tutti.tasks.serving import RegistryError
from tutti.tasks.serving.engines.fitting import WantedGpus, place


def machine(count: int) -> Inventory:
    """One with so many cards."""
    host = socket.gethostname()
    gpus = tuple(Gpu(host=host, index=n, uuid=f"GPU-{n:02d}") for n in range(count))
    return Inventory(gpus, "gpus.yaml", "" if count else "gpus.yaml lists none")


def test_named_cards_are_kept_free_for_those_that_name_them() -> None:
    """ToolOrchestra's setting: a measured model on one card, an expert on four."""
    asked: list[tuple[str, WantedGpus]] = [("policy", 1), ("expert", (0, 1, 2, 3))]
    policy, expert = place([*asked, ("api", None)], machine(8))[:2]
    assert policy.text == "policy on GPU 4"
    assert expert.text == "expert on GPU 0, 1, 2, 3"


@pytest.mark.parametrize(
    ("asked", "cards", "told"),
    [
        ([1, 4], 4, "5 GPUs are needed at the same time (m0 1 + m1 4) and this machine has 4"),
        ([1], 0, "this machine has none (gpus.yaml lists none)"),
        ([(0,), ("GPU-00",)], 2, "m0, m1 are to run at the same time, each on GPU 0"),
        ([("GPU-9",)], 2, "models.m0.engine.gpus: 'GPU-9' names 0 of this machine's GPUs"),
        ([("GPU-",)], 2, "'GPU-' names 2 of this machine's GPUs; it has 0 (GPU-00), 1 (GPU-01)"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_arithmetic(
    asked: list[WantedGpus], cards: int, told: str
) -> None:
    """A claim would wait for a card that its own sweep holds."""
    engines = [(f"m{n}", gpus) for n, gpus in enumerate(asked)]
    with pytest.raises(RegistryError) as refusal:
        place(engines, machine(cards))
    assert told in str(refusal.value)


@given(st.lists(st.integers(1, 4), max_size=6), st.integers(0, 12))
def test_each_gets_its_number_and_no_card_is_given_twice(asked: list[int], cards: int) -> None:
    """Or all are refused."""
    engines = [(f"m{n}", count) for n, count in enumerate(asked)]
    if sum(asked) > cards:
        with pytest.raises(RegistryError):
            place(engines, machine(cards))
        return
    places = place(engines, machine(cards))
    assert [len(each.gpus) for each in places] == asked
    taken = [gpu.index for each in places for gpu in each.gpus]
    assert len(set(taken)) == len(taken)
