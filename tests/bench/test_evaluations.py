"""Tests of our scorers against the official programs; tests whose program is not installed are
skipped with a message."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from bench.evaluations import (
    api_bank,
    api_bank_3,
    bfcl,
    bigcodebench,
    bird,
    flowbench,
    inspect_evals,
    mnms,
    nemo_lean,
    nemo_metrics,
    terminal_bench,
)
from bench.evaluations.agreement import Agreement, official
from bench.evaluations.perturb import KINDS, perturbed
from tutti.tasks.scoring.children.sql_rows import QueryFailed, run_query

CALL = {"name": "f", "arguments": {"a": "New York", "n": 2}}


def named(variable: str) -> str:
    """Return the path in an environment variable; skip the test if it is not set."""
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} names no official program (docs/evaluations.md)")
    return value


def test_bfcl_agrees_with_its_package() -> None:
    """18,808 answers, gold and perturbed, are scored without a difference."""
    python = named("TUTTI_OFFICIAL_BFCL")
    ask = "import bfcl_eval; print(bfcl_eval.__path__[0])"
    run = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    found = bfcl.calls(python, Path(run.stdout.strip()) / "data")
    assert sum(found.n.values()) == 18_808 and found.differing == []


@pytest.mark.timeout(240)
def test_terminal_benchs_results_have_its_own_figures() -> None:
    """Resolved trials, accuracy and pass@k are compared for imported runs written by its models."""
    found = terminal_bench.figures(named("TUTTI_OFFICIAL_TERMINAL_BENCH"), Path(), runs=10)
    assert sum(found.n.values()) == 46 and found.differing == []


def test_bigcodebench_agrees_with_its_program() -> None:
    """Ten constructed tasks give the same verdicts and extracted code, except for cheating
    solutions."""
    python = named("TUTTI_OFFICIAL_BIGCODEBENCH")
    named("TUTTI_CODE_PYTHON")
    found = bigcodebench.verdicts(python, Path(bigcodebench.__file__).parent / "made")
    assert sum(found.n.values()) > 400
    assert all(text.startswith("cheat") and "ours False" in text for text in found.differing)


def test_nemo_skills_metrics_are_its_own() -> None:
    """Each figure is compared for constructed benchmarks: answers, a judge's verdicts, SimpleQA."""
    found = nemo_metrics.figures(sys.executable, Path(named("TUTTI_NEMO_SKILLS")), sets=10)
    assert sum(found.n.values()) > 1_500 and found.differing == []


@pytest.mark.timeout(240)
def test_nemo_skills_metrics_of_measured_rows_are_its_own() -> None:
    """The rows are from one of our sweeps: 200 tasks with 4 trials, a tenth of the replies
    unreadable."""
    found = nemo_metrics.measured(sys.executable, Path(named("TUTTI_NEMO_SKILLS")))
    assert sum(found.n.values()) > 30 and found.differing == []


def test_api_bank_agrees_with_its_evaluator() -> None:
    """One gold call in twenty and its perturbations are compared."""
    python, checkout = named("TUTTI_OFFICIAL_API_BANK"), Path(named("TUTTI_API_BANK"))
    found = api_bank.calls(python, checkout, every=20)
    assert sum(found.n.values()) > 150 and found.differing == []


def test_api_bank_by_execution_agrees_with_its_evaluator() -> None:
    """The verdict and the kind of error are compared for one gold call in twenty."""
    python, checkout = named("TUTTI_OFFICIAL_API_BANK"), Path(named("TUTTI_API_BANK"))
    for compare in (api_bank.executed, api_bank.errors):
        found = compare(python, checkout, every=20)
        assert sum(found.n.values()) > 150 and found.differing == []


def test_level_3_of_api_bank_agrees_with_its_evaluator() -> None:
    """One sample in ten is compared by call, with the replies; the data file is in the repository's
    history."""
    python, checkout = named("TUTTI_OFFICIAL_API_BANK"), Path(named("TUTTI_API_BANK"))
    if not (checkout / "test-data" / "level-3.json").is_file():
        pytest.skip(f"{checkout} has no test-data/level-3.json (docs/evaluations.md)")
    for found in (
        api_bank_3.calls(python, checkout, every=10),
        api_bank_3.replies(python, checkout),
    ):
        assert sum(found.n.values()) > 150 and found.differing == []


def test_flowbench_agrees_with_its_programs() -> None:
    """Every figure of a turn is compared, and those of sessions except for calls with an object as
    a value."""
    python, checkout = named("TUTTI_OFFICIAL_FLOWBENCH"), Path(named("TUTTI_FLOWBENCH"))
    found = flowbench.turns_and_sessions(python, checkout)
    assert sum(found.n.values()) == 1860 and len(found.differing) == 5
    assert all(text.startswith("session") and "{'no': 1}" in text for text in found.differing)


def test_nemo_skills_has_the_same_file_and_verdict() -> None:
    """Messages in every format are compared with each statement, and so are outputs of Lean."""
    found = nemo_lean.proofs(sys.executable, Path(named("TUTTI_NEMO_SKILLS")))
    assert sum(found.n.values()) == 1863 and found.differing == []


def test_made_up_calls_do_what_their_kind_says() -> None:
    """Every kind except gold changes the call and never the gold call itself."""
    cases = list(flowbench.made_turns(random.Random(1)))
    assert len(cases) == flowbench.ROUNDS * len(flowbench.KINDS)
    for kind, gold, made in cases:
        assert (gold == []) == (kind in ("reply", "surplus"))
        assert (made == []) == (kind in ("none", "reply"))
        if gold and made:
            dated = kind == "case" and gold[0]["arguments"]["t"][0].isdigit()  # has no letters
            assert (gold == made) == (kind == "gold" or dated), (kind, gold, made)


def test_mnms_agrees_with_its_evaluator_and_its_parser() -> None:
    """Every figure is compared, and parsed replies except for those with escapes, which its parser
    deletes."""
    python, checkout = named("TUTTI_OFFICIAL_MNMS"), Path(named("TUTTI_MNMS"))
    found = mnms.plans(python, checkout, rounds=4)
    assert sum(found.n.values()) > 250 and found.differing
    differing = {kind for kind in found.n if found.same[kind] < found.n[kind]}
    assert differing <= {f"reply {form} {kind}" for form in ("json", "code") for kind in (
        "escapes", "all")}  # fmt: skip


def test_made_up_plans_do_what_their_kind_says() -> None:
    """Every kind except gold changes the plan and never the gold plan itself."""
    rng = random.Random(1)
    for _ in range(30):
        gold = mnms.made_plan(rng, (*mnms.PLAIN, *mnms.ESCAPED))
        before = json.dumps(gold)
        made = {kind: mnms.changed(gold, kind, rng) for kind in mnms.KINDS}
        assert json.dumps(gold) == before and made["gold"] == gold and made["none"] == []
        same = {kind for kind in mnms.KINDS if made[kind] == gold}
        assert same <= {"gold", "case", "tool", "order", "swapped", "spaces"}
        assert len(made["many"]) == 20 * len(gold) == 20 * (len(made["dropped"]) + 1)
    programs = {kind: mnms.program(mnms.PAD, kind, rng) for kind in mnms.PROGRAMS}
    assert len(set(programs.values())) == len(mnms.PROGRAMS)


def test_figures_are_the_evaluators_by_hand() -> None:
    """The plans are a correct one with two tools, and one in which another tool replaces one of the
    two."""
    counts = {"argument_names": [2, 2, 2], "argument_values": [1, 2, 2], "edges": [1, 1, 1]}
    right = {"right_tools": ["tag", "count"], "missed_tools": [], "surplus_tools": []}
    exact = {"plan_names": True, "plan_values": False, "edit_distance": 0.0, "plan_tools": True}
    wrong = {"right_tools": ["tag"], "missed_tools": ["count"], "surplus_tools": ["emoji"]}
    other = {"argument_names": [1, 2, 2], "argument_values": [0, 2, 2], "edges": [0, 1, 1]}
    failed = {"plan_names": False, "plan_values": False, "edit_distance": 0.5}
    found = mnms.figures_of(
        [counts | right | exact, other | wrong | failed | {"plan_tools": False}]
    )
    # tag: precision and recall 1; count: precision 1, recall 1/2, F1 2/3; emoji 0; of 33 tools
    assert found["tool_macro_precision"] == round(100 * 2 / 33, 2)
    assert found["tool_macro_recall"] == round(100 * 1.5 / 33, 2)
    assert found["tool_macro_f1"] == round(100 * (1 + 2 / 3) / 33, 2)
    assert [found[f"{each}_f1"] for each in ("argname", "argvalue", "edge")] == [75.0, 25.0, 50.0]
    assert (found["plan_tool_accuracy"], found["plan_argvalue_accuracy"]) == (50.0, 0.0)
    assert found["tool_normalized_edit_distance"] == 25.0


@pytest.mark.slow
def test_bird_agrees_with_its_programs() -> None:
    """Every pair of read-only queries is compared by EX and soft-F1, and R-VES for given times."""
    python, programs = named("TUTTI_OFFICIAL_BIRD"), Path(named("TUTTI_BIRD"))
    found = bird.queries(python, programs)
    assert sum(found.n.values()) > 2000
    assert {text.split(":")[0] for text in found.differing} <= {"EX write", "F1 write", "F1 pragma"}


def test_made_up_queries_do_what_their_kind_says(tmp_path: Path) -> None:
    """Queries that must not run fail, the others return rows, and equivalent queries return equal
    sets."""
    bird.made_database(tmp_path / "made.sqlite", 1)
    parts = (["a", "b"], "a < 4", "")
    rows: dict[str, set[tuple[object, ...]] | None] = {}
    for kind in bird.KINDS:
        query = bird.predicted(parts, kind, random.Random(3))
        try:
            rows[kind] = set(run_query(tmp_path / "made.sqlite", query, 5.0))
        except QueryFailed:
            rows[kind] = None
    assert {kind for kind, found in rows.items() if found is None} == {
        *("error", "two", "write", "pragma")
    }
    for kind in ("order", "duplicates", "distinct"):
        assert rows[kind] == rows["gold"] != set()
    assert rows["columns"] != rows["gold"] and rows["more"] != rows["gold"]
    ratios = [sum(gold / given for gold, given in times) for times in bird.made_times()]
    assert len(ratios) == bird.TIMES and min(ratios) > 0


def test_inspect_evals_agrees_where_both_read_the_form() -> None:
    """Choices are compared in the format that its prompts request, and so are the figures of
    SimpleQA and HLE."""
    python, nothing = named("TUTTI_OFFICIAL_INSPECT_EVALS"), Path()
    letters = inspect_evals.choice(python, nothing)
    forms = ("asked", "stop", "bold", "brackets", "dollars", "again")
    assert [letters.n[form] for form in forms] == [letters.same[form] for form in forms]
    assert all(
        found.startswith(("sentence", "boxed", "reason", "alone")) for found in letters.differing
    )
    judged = inspect_evals.simpleqa(python, nothing)
    assert judged.same["paper"] == 17 and judged.same["figures"] == inspect_evals.ROUNDS
    assert inspect_evals.hle(python, nothing).same["calibration"] == inspect_evals.ROUNDS


def test_joined_agreements_keep_both_counts() -> None:
    one, other = Agreement(), Agreement()
    one.add("gold", True, True, "a")
    other.add("gold", True, False, "b")
    one.join(other)
    assert (one.n["gold"], one.same["gold"], len(one.differing)) == (2, 1, 1)


def test_perturbed_answers() -> None:
    """Each kind makes its own change and never modifies the gold calls themselves."""
    made = {kind: perturbed([CALL], kind, "seed") for kind in KINDS}
    assert made["gold"] == [CALL] and made["none"] == [] and made["extra"] == [CALL, CALL]
    assert made["name"][0]["name"] == "fX" and made["added"][0]["arguments"]["surplus"] == "1"
    assert made["lower"][0]["arguments"] == {"a": "new york", "n": 2}
    assert len(made["without"][0]["arguments"]) == 1
    assert made["changed"] != [CALL] == perturbed([CALL], "gold", "other")


def test_the_table_counts_by_kind(tmp_path: Path) -> None:
    found = Agreement()
    found.add("gold", True, True, "a")
    found.add("gold", True, False, "b")
    lines = found.table().splitlines()
    assert lines[1].split() == ["gold", "2", "1", "1"] == ["gold", *lines[2].split()[1:]]
    assert lines[3] == "gold: b: ours True, official False"


def test_a_program_that_ends_in_an_error_is_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"api_bank\.py ended with 1"):
        official("python3", "api_bank.py", [str(tmp_path)], [{"file": "x", "line": 1}])
