"""Tests of the length of replies: stated ones keep their ids; the default follows from the model's
context."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sweeps.conftest import config_of, make_tasks
from tutti.storage import Catalog, query
from tutti.tasks.serving.registry.models import Model
from tutti.tasks.sweeps.plan.enter import enter_plan
from tutti.tasks.sweeps.plan.plan import CellIds, Plan, grid_id_of, plan_of
from tutti.tasks.sweeps.spec import Policy, Suite


def planned(suite: Suite, context_tokens: int) -> Plan:
    """Return the plan of `suite` for a model with this context."""
    made = config_of(make_tasks(2))
    model = Model(provider="openai", endpoint="http://a:1/v1", context_tokens=context_tokens)
    return plan_of(suite, replace(made, model=model))


@pytest.mark.parametrize(
    ("context", "tokens"), [(512, 256), (8192, 4096), (32_768, 16_384), (1_000_000, 16_384)]
)
def test_half_of_the_context_up_to_what_providers_take(context: int, tokens: int) -> None:
    suite = Suite(benchmark="gsm8k")
    assert suite.reply_tokens(context) == tokens
    assert planned(suite, context).suite.sampling.reply_tokens == tokens
    stated = suite.with_fields({"max_tokens": 12})
    assert planned(stated, context).suite.sampling.reply_tokens == 12


def test_a_default_is_the_cell_of_its_length() -> None:
    """The cells are the same as if it were stated, and differ from those of the former 96
    tokens."""
    left_out = planned(Suite(benchmark="gsm8k"), 8192)
    stated = planned(Suite().with_fields({"benchmark": "gsm8k", "max_tokens": 4096}), 8192)
    former = planned(Suite().with_fields({"benchmark": "gsm8k", "max_tokens": 96}), 8192)
    ids = [[cell.cell_id for cell in plan.cells] for plan in (left_out, stated, former)]
    assert ids[0] == ids[1] and not set(ids[0]) & set(ids[2])


def test_stdlib_keeps_its_cells() -> None:
    """Answers of stdlib are one word, and its sweeps were measured with 96."""
    left_out = planned(Suite(), 8192)
    stated = planned(Suite.model_validate({"sampling": {"max_tokens": 96}}), 8192)
    assert left_out.sweep_id == stated.sweep_id


def test_a_grid_that_states_the_former_default_keeps_its_id() -> None:
    grid = Suite(models=("a", "b"))
    assert grid_id_of(grid) == grid_id_of(grid.with_fields({"max_tokens": 96}))
    assert grid_id_of(grid) != grid_id_of(grid.with_fields({"max_tokens": 97}))


def test_the_cells_of_such_grids_are_not_the_same() -> None:
    """Both grids share the sweep's id and no cell: a reply of 96 tokens is not taken for a longer
    one."""
    grid = Suite(benchmark="gsm8k")
    ids = [
        CellIds(each, replace(config_of([]), model=None), "sweep:grid").of(
            Policy(name="passthrough"), 1, 0, 1
        )
        for each in (grid.with_fields({"max_tokens": 96}), grid.with_fields({"max_tokens": 4096}))
    ]
    assert ids[0] != ids[1]


def part_of(grid: Suite, context_tokens: int | None) -> Plan:
    """Return the plan of a grid's part for a model with this context; None means without an
    entry."""
    made = config_of(make_tasks(2))
    if context_tokens is not None:
        model = Model(provider="openai", endpoint="http://a:1/v1", context_tokens=context_tokens)
        made = replace(made, model=model)
    return plan_of(grid.parts()[0], made, grid)


LENGTHS = st.none() | st.sampled_from([95, 96, 97, 256, 4096])
CONTEXTS = st.none() | st.sampled_from([190, 192, 194, 512, 8192])


@given(st.sampled_from(["gsm8k", "stdlib"]), LENGTHS, LENGTHS, CONTEXTS)
def test_no_cell_is_of_two_lengths(
    benchmark: str, one: int | None, other: int | None, context: int | None
) -> None:
    """For any grid and id, two plans of one model and benchmark with different reply lengths share
    neither a cell nor a sample. With one length and one id they share all; a stated length gives
    most grids another id."""
    grid = Suite(benchmarks=(benchmark, "ifeval"), concurrency=(1, 2))
    plans = [part_of(grid.with_fields({"max_tokens": each}), context) for each in (one, other)]
    lengths = [plan.suite.sampling.reply_tokens for plan in plans]
    cells = [{cell.cell_id for cell in plan.cells} for plan in plans]
    samples = [{each.sample_id for cell in plan.cells for each in cell.samples} for plan in plans]
    if lengths[0] != lengths[1]:
        assert not cells[0] & cells[1] and not samples[0] & samples[1]
    elif plans[0].sweep_id == plans[1].sweep_id:
        assert cells[0] == cells[1] and samples[0] == samples[1]


def test_a_grid_run_the_other_way_shows_the_cells_of_its_newest_plan(catalog: Catalog) -> None:
    """The two share a sweep; the cells of the other length are superseded and can become current
    again."""
    grid = Suite(benchmarks=("gsm8k", "ifeval"), policies=("passthrough",), concurrency=(1,))
    long, short = (part_of(grid.with_fields({"max_tokens": n}), 8192) for n in (None, 96))
    assert long.sweep_id == short.sweep_id
    shown = "select cell_id from cells where status <> 'superseded'"
    for plan in (long, short, long):
        enter_plan(plan, catalog)
        assert query(shown, catalog.home) == [{"cell_id": plan.cells[0].cell_id}]
    assert len(query("select * from cells", catalog.home)) == 2
