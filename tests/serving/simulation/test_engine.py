"""Tests of the engine: times, prefix hits, the shared prefix and preemption in manual examples, and
invariants for any load."""

from dataclasses import replace
from math import inf
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serving.simulation.driving import TINY, drive
from tutti.tasks.serving.simulation.engine import SimEngine, SimRequest


def test_one_request_takes_its_prompt_and_its_tokens() -> None:
    """The request takes 1 + 10 x 0.1 s to the first of three tokens and 1.01 s for each of the
    others."""
    request = SimRequest("p", 0, prompt=10, output=3)
    started, ended = drive(SimEngine(TINY), [(5.0, request)])
    assert started[request] == pytest.approx(7.0)
    assert ended[request] == pytest.approx(9.02)


def test_context_costs_what_is_attended_to() -> None:
    model = replace(TINY, context_token_s=0.001)
    request = SimRequest("p", 0, prompt=10, output=3)
    _, ended = drive(SimEngine(model), [(0.0, request)])
    assert ended[request] == pytest.approx(2.0 + 2.02 + 0.001 * (10 + 10 + 11))


def test_a_prompt_beyond_the_budget_is_computed_in_chunks() -> None:
    model = replace(TINY, max_batched_tokens=8)
    engine, long = SimEngine(model), SimRequest("p", 0, prompt=20, output=1)
    _, ended = drive(engine, [(0.0, long)])
    assert ended[long] == pytest.approx(3 * 1.0 + 20 * 0.1)


def test_the_next_prompt_finds_whole_blocks_but_never_its_last_token() -> None:
    """The context has 13 tokens, of which 12 are computed and cached: three blocks of four."""
    engine = SimEngine(TINY)
    first, second = SimRequest("p", 0, 10, 3), SimRequest("p", 1, 16, 1, kept=13)
    drive(engine, [(0.0, first), (10.0, second)])
    assert (first.cached, second.cached) == (0, 12)
    again = SimRequest("p", 2, 16, 1, kept=16)
    drive(engine, [(20.0, again)])
    assert again.cached == 12  # 15 tokens may match, in whole blocks


def test_a_rebuilt_prompt_finds_only_what_it_kept() -> None:
    engine = SimEngine(TINY)
    calls = [SimRequest("p", turn, 16, 1, kept=kept) for turn, kept in enumerate((0, 6, 16))]
    drive(engine, [(10.0 * turn, call) for turn, call in enumerate(calls)])
    assert [call.cached for call in calls] == [0, 4, 12]
    assert engine.recomputed == 0  # nothing was there that could have been found


def test_the_least_recently_freed_prefix_goes_first_and_from_its_tail() -> None:
    """There are eight blocks; a and b leave three each, c takes four: b keeps all, a keeps one."""
    engine = SimEngine(TINY)
    a, b, c = (SimRequest(name, 0, 12, 1) for name in "abc")
    c = SimRequest("c", 0, 16, 1)
    drive(engine, [(0.0, a), (10.0, b), (20.0, c)])
    assert [engine.cache.cached(name) for name in "abc"] == [1, 3, 4]
    back = SimRequest("a", 1, 14, 1, kept=13)
    drive(engine, [(30.0, back)])
    assert back.cached == 4
    assert engine.recomputed == 8


def test_a_shared_prefix_is_there_once_for_all() -> None:
    """The prefix has two blocks, which later requests reuse and which are held while any request
    runs."""
    engine = SimEngine(TINY)
    calls = [SimRequest(name, 0, 12, 2, shared=8, group="g") for name in "abc"]
    drive(engine, [(0.0, calls[0]), (0.5, calls[1]), (20.0, calls[2])])
    assert [call.cached for call in calls] == [0, 8, 8]
    taken = engine.cache.total - engine.cache.free
    assert taken == 0
    assert engine.cache.cached(("group", "g")) == 2


def test_who_was_admitted_last_is_preempted_and_computed_again() -> None:
    """Two prompts of 14 tokens fill all eight blocks; a's 17th token needs a ninth."""
    engine = SimEngine(TINY)
    a, b = SimRequest("a", 0, 14, 5), SimRequest("b", 0, 14, 5)
    started, ended = drive(engine, [(0.0, a), (0.0, b)])
    assert engine.preemptions == 1
    assert ended[a] < ended[b]
    assert started.keys() == ended.keys() == {a, b}
    assert engine.prefilled == 14 + 14 + 4  # its whole blocks were still there when a had ended
    assert engine.recomputed == 0


def test_waiting_is_first_come_first_served() -> None:
    """A small request does not overtake a large one that waits for blocks."""
    engine = SimEngine(TINY)
    running, large, small = (
        SimRequest("a", 0, 16, 9),
        SimRequest("b", 0, 20, 1),
        SimRequest("c", 0, 4, 1),
    )
    started, _ = drive(engine, [(0.0, running), (0.1, large), (0.2, small)])
    assert started[running] < started[large] <= started[small]


def test_an_arrival_joins_at_the_next_boundary_of_a_long_run() -> None:
    engine = SimEngine(replace(TINY, kv_tokens=4 * 64))
    long, late = SimRequest("a", 0, 4, 101), SimRequest("b", 0, 4, 1)
    started, ended = drive(engine, [(0.0, long), (50.0, late)])
    # 1.4 s of prefill, then iterations of 1.01 s: the first boundary after 50 is the 49th.
    assert started[late] == pytest.approx(1.4 + 49 * 1.01 + 1.41)
    assert ended[long] == pytest.approx(1.4 + 99 * 1.01 + 1.41)


def requests() -> st.SearchStrategy[list[tuple[float, SimRequest]]]:
    """Return loads of up to a dozen requests of a few programs, each of which fits alone."""
    one = st.builds(
        lambda at, key, prompt, output, kept, shared: (
            at,
            SimRequest(key, int(at * 10), prompt, output, min(kept, prompt), shared, "g"),
        ),
        st.floats(0, 30),
        st.sampled_from("abcd"),
        st.integers(5, 20),
        st.integers(1, 12),
        st.integers(0, 20),
        st.sampled_from((0, 4)),
    )
    return st.lists(one, min_size=1, max_size=12)


class OneByOne(SimEngine):
    """Engine that never combines iterations in one step."""

    def _longest_run(self) -> int:
        super()._longest_run()
        return 1


@settings(max_examples=settings().max_examples * 3 // 2, deadline=None)
@given(requests(), st.integers(1, 6), st.sampled_from((6, 64)))
def test_any_load_ends_within_capacity(
    load: list[tuple[float, SimRequest]], seqs: int, batched: int
) -> None:
    """Every request ends once, no block is lost, and combining iterations has no effect."""
    model = replace(TINY, max_num_seqs=seqs, max_batched_tokens=batched, context_token_s=1e-3)
    engine = SimEngine(model)
    plain = SimEngine.boundary

    def watched(self: SimEngine) -> tuple[list[SimRequest], list[SimRequest]]:
        found = plain(self)
        assert 0 <= self.cache.free <= self.cache.total
        assert len(self.running) <= seqs
        return found

    with patch.object(SimEngine, "boundary", watched):
        _, ended = drive(engine, load)
    assert len(ended) == len(load)
    assert engine.next_at == inf
    assert engine.cache.free == engine.cache.total
    copies = [(at, _copy(request)) for at, request in load]
    _, stepped = drive(OneByOne(model), copies)
    for (_, request), (_, copy) in zip(load, copies, strict=True):
        assert ended[request] == pytest.approx(stepped[copy])
        assert request.cached == copy.cached


def _copy(request: SimRequest) -> SimRequest:
    sizes = (request.prompt, request.output, request.kept)
    return SimRequest(request.key, request.turn, *sizes, request.shared, request.group)
