"""Tests that a training set has the attempts of its query, without those that may not be trained
on, with reasons."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import NewCatalog
from tests.training.sets.recorded import (
    CUT,
    END,
    ENDS,
    REWRITTEN,
    TWO,
    Attempt,
    enter,
    task,
    unrecorded,
)
from tutti.storage import Catalog, Home, commit, query
from tutti.storage.read.lineage_graph import walk
from tutti.tasks.training import JobError, TrainingData, TrainingSet, build_set, conversation_set
from tutti.tasks.training.sets.build import _aside
from tutti.tasks.training.sets.chosen import PARTNER, SEVERAL, TURNS, TWO_TASKS

ALL = "select attempt_id from attempts"
PAIR = "select 'good' as chosen, 'bad' as rejected"


def built(catalog: Catalog, sql: str = ALL, objective: str = "sft", **fields: Any) -> TrainingSet:
    data = TrainingData.model_validate({"from": sql} | fields)
    return build_set(data, ENDS, catalog, objective)


def rows_of(made: TrainingSet) -> list[dict[str, Any]]:
    if made.rows.suffix == ".parquet":
        return pq.read_table(made.rows).to_pylist()  # type: ignore[no-any-return]
    return [json.loads(line) for line in made.rows.read_text().splitlines()]


def left_out(made: TrainingSet) -> dict[str, str]:
    rows = pq.read_table(made.rows.parent / "dropped.parquet").to_pylist()
    reasons = {row["attempt_id"]: row["reason"] for row in rows}
    assert sum(made.manifest["dropped"].values()) == len(reasons) == len(rows)
    return reasons


def test_each_attempt_that_is_left_out_has_its_reason(catalog: Catalog) -> None:
    """The other attempts are included with ids, turns and log probabilities as recorded."""
    tasks = [task("t2", "test", "a held-out question"), task("t3", "train", "A held-out question?")]
    refused = [
        Attempt("infra", status="infra_error"),
        Attempt("held out", "t2"),
        Attempt("repeated", "t3"),
        Attempt("elsewhere", "t9"),
        Attempt("cut", turns=(([1, 2], [3]),)),
    ]
    enter(catalog, [Attempt("kept", turns=TWO), Attempt("cut first", turns=CUT), *refused], tasks)
    unrecorded(catalog, "bare")
    made = built(catalog, ALL + " union all select 'unknown'")
    assert left_out(made) == {
        "infra": "status infra_error",
        "held out": "held-out split test",
        "repeated": "question of a held-out task",
        "elsewhere": "task of no known split",
        "bare": "no token ids were recorded",
        "cut": "every answer was cut",
        "unknown": "no such attempt",
    }
    cut, kept = rows_of(made)
    assert (cut["name"], kept["name"]) == ("cut first", "kept")
    assert kept["ids"] == [1, 2, 3, END, 7, 4, END] and kept["turns"] == [-1, -1, 0, 0, -1, 1, 1]
    assert kept["logprobs"] == [0, 0, -0.5, -0.5, 0, -0.5, -0.5]
    assert cut["turns"] == [-1, -1, -1, -1, -1, 1, 1], "a cut answer is context"
    said = made.manifest
    assert (said["attempts"], said["sequences"], said["truncated_calls"]) == (9, 2, 2)
    assert (said["tokens"], said["trained_tokens"]) == (14, 6)


def test_what_a_scorer_failed_on_is_trained_on_once_it_is_scored(catalog: Catalog) -> None:
    """Figures count it from then on, too."""
    enter(catalog, [Attempt(name, status="scorer_error") for name in ("scored since", "unscored")])
    key = {"cell_id": "cell:1", "attempt_id": "scored since", "scorer": "exact"}
    commit(catalog, {"scores": [key | {"correct": True, "scored_at": datetime.now(UTC)}]})
    made = built(catalog)
    assert [row["name"] for row in rows_of(made)] == ["scored since"]
    assert left_out(made) == {"unscored": "status scorer_error"}


def test_other_splits_are_trained_on_only_if_named(catalog: Catalog) -> None:
    enter(catalog, [Attempt("a"), Attempt("b", "t2")], [task("t2", "test", "quite another")])
    assert [row["name"] for row in rows_of(built(catalog))] == ["a"]
    made = built(catalog, splits=["train", "test"])
    assert [row["name"] for row in rows_of(made)] == ["a", "b"]


def test_the_same_attempts_are_the_same_set(catalog: Catalog) -> None:
    """This holds for any order and wording of the query; the set is written once, and another
    weight gives another set."""
    enter(catalog, [Attempt("a"), Attempt("b", turns=TWO)])
    made = built(catalog, ALL + " order by attempt_id")
    written = made.rows.stat().st_mtime_ns
    again = built(catalog, "select attempt_id, 1 as weight from attempts order by 1 desc")
    assert again.set_id == made.set_id and again.rows.stat().st_mtime_ns == written
    assert built(catalog, "select attempt_id, 2 as weight from attempts").set_id != made.set_id
    assert built(catalog, splits=["train", "other"]).set_id != made.set_id


def test_a_set_that_was_cut_off_is_written_again(
    catalog: Catalog, tmp_path: Path, new_catalog: NewCatalog
) -> None:
    """The set's files exist but it was never entered, as after a kill."""
    enter(catalog, [Attempt("a")])
    made = built(catalog)
    whole = made.rows.read_bytes()
    with new_catalog(Home(tmp_path / "other")) as other:
        enter(other, [Attempt("a")])
        folder = other.home.artifact_folder(made.set_id)
        folder.mkdir(parents=True)
        (folder / "rows.parquet").write_bytes(b"half")
        assert built(other).rows.read_bytes() == whole


def test_weights_are_each_trained_ids(catalog: Catalog) -> None:
    enter(catalog, [Attempt("a"), Attempt("b")])
    sql = "select attempt_id, case attempt_id when 'a' then -0.5 end as weight from attempts"
    first, second = rows_of(built(catalog, sql))
    assert first["values"] == [0, 0, -0.5, -0.5] and second["values"] == [0, 0, 1, 1], "null is 1"


def test_labels_are_kept(catalog: Catalog) -> None:
    enter(catalog, [Attempt("a"), Attempt("b")])
    sql = "select attempt_id, attempt_id = 'a' as wanted from attempts"
    assert [row["wanted"] for row in rows_of(built(catalog, sql, "kto"))] == [True, False]


@pytest.mark.parametrize("objective", ["dpo", "sdpo", "kto"])
def test_a_pair_is_two_rows_one_after_the_other(catalog: Catalog, objective: str) -> None:
    """An attempt may be a side of several pairs."""
    enter(catalog, [Attempt("good"), Attempt("bad"), Attempt("worse")])
    made = built(catalog, f"{PAIR} union all select 'bad', 'worse'", objective)
    found = [(row["name"], row["wanted"], row["pair"]) for row in rows_of(made)]
    assert found == [
        ("bad", True, 0),
        ("worse", False, 0),
        ("good", True, 1),
        ("bad", False, 1),
    ]
    assert made.manifest["attempts"] == 3 and not left_out(made)


@pytest.mark.parametrize(
    ("worse", "reasons"),
    [
        (Attempt("bad", status="cancelled"), {"bad": "status cancelled", "good": PARTNER}),
        (Attempt("bad", turns=REWRITTEN), {"bad": SEVERAL, "good": PARTNER}),
        (Attempt("bad", "t2"), {"bad": TWO_TASKS, "good": TWO_TASKS}),
        (Attempt("bad", turns=(([1, 2], [3]),)), {"bad": "every answer was cut", "good": PARTNER}),
    ],
)
def test_a_pair_without_a_side_is_left_out_whole(
    catalog: Catalog, worse: Attempt, reasons: dict[str, str]
) -> None:
    """Otherwise the next attempt would take its place."""
    others = [Attempt("x"), Attempt("y")]
    enter(catalog, [Attempt("good"), worse, *others], [task("t2", "train", "another question")])
    made = built(catalog, f"{PAIR} union all select 'x', 'y'", "dpo")
    assert [row["name"] for row in rows_of(made)] == ["x", "y"]
    assert left_out(made) == reasons


def test_sdpo_compares_equally_many_turns(catalog: Catalog) -> None:
    """DPO compares any numbers of turns."""
    attempts = [Attempt("good"), Attempt("bad", turns=TWO), Attempt("x"), Attempt("y")]
    enter(catalog, attempts)
    sql = f"{PAIR} union all select 'x', 'y'"
    assert left_out(built(catalog, sql, "sdpo")) == {"good": TURNS, "bad": TURNS}
    assert len(rows_of(built(catalog, sql, "dpo"))) == 4


@pytest.mark.parametrize(
    ("sql", "objective", "said"),
    [
        ("select nothing from attempts", "sft", 'column "nothing" not found'),
        ("selec", "sft", "yntax error"),
        (ALL + " where false", "sft", "the query gives no row"),
        ("select task_id, model from attempts", "sft", "gives task_id, model; it must give"),
        (f"{ALL} union all {ALL}", "sft", "gives a more than once"),
        ("select attempt_id, 'much' as weight from attempts", "sft", "row 1: weight 'much' is no"),
        ("select attempt_id, 'nan'::double as weight from attempts", "sft", "weight nan is no"),
        ("select attempt_id, 'yes' as wanted from attempts", "kto", "wanted 'yes' is neither"),
        (ALL, "kto", "kto needs the column wanted"),
        (ALL, "dpo", "dpo needs the columns chosen and rejected"),
        (PAIR, "sft", "gives pairs, and sft would learn from their rejected sides"),
        ("select 'a' as chosen, 'a' as rejected", "dpo", "gives a as chosen and as rejected"),
        (f"{PAIR} union all {PAIR}", "dpo", "gives good over bad more than once"),
        ("select 'x' as attempt_id", "sft", "nothing is left to train on: 1 x no such attempt"),
    ],
)
def test_a_query_that_does_not_serve_is_told(
    catalog: Catalog, sql: str, objective: str, said: str
) -> None:
    """There is one error, and nothing is entered."""
    enter(catalog, [Attempt("a")])
    with pytest.raises(JobError, match=r"^data\.from: ") as caught:
        built(catalog, sql, objective)
    assert said.lower() in str(caught.value).lower()
    assert not query("select * from artifacts", catalog.home)


def test_held_out_tasks_are_on_one_side(catalog: Catalog) -> None:
    """All attempts of a task are on one side; of labelled ones only the desirable are evaluated."""
    names = [f"t{n}" for n in range(2, 12)]
    tasks = [task(name, "train") for name in names]
    attempts = [Attempt(f"{name} {n}", name) for name in names for n in range(3)]
    enter(catalog, attempts, tasks)
    made = built(catalog, held_out_share=0.2)
    assert made.held_out is not None
    trained = {row["name"].split()[0] for row in rows_of(made)}
    measured = [row["name"].split()[0] for row in pq.read_table(made.held_out).to_pylist()]
    assert len(trained) == 8 and len(set(measured)) == 2 and not trained & set(measured)
    assert len(measured) == 6
    sql = "select attempt_id, not ends_with(attempt_id, '0') as wanted from attempts"
    labelled = built(catalog, sql, "kto", held_out_share=0.2)
    assert labelled.held_out is not None
    assert len(pq.read_table(labelled.held_out)) == 4
    assert built(catalog).held_out is None


@given(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=20), st.floats(0, 0.99))
def test_neither_side_is_empty_and_no_task_is_on_both(tasks: list[str], share: float) -> None:
    aside = _aside(tasks, share)
    sides = list(zip(tasks, aside, strict=True))
    held, trained = ({name for name, each in sides if each is side} for side in (True, False))
    assert trained and not held & trained
    assert bool(held) == (share > 0 and len(set(tasks)) > 1)


def test_messages_are_rows_in_the_form_of_templates(catalog: Catalog) -> None:
    """Tool calls have their arguments as objects; arguments of a model that are not JSON are
    unchanged."""
    calls = [
        {"id": "1", "name": "search", "arguments": '{"query": "x"}'},
        {"id": "2", "name": "search", "arguments": "{broken"},
    ]
    said: list[dict[str, Any]] = [
        {"role": "user", "content": "find x"},
        {"role": "assistant", "content": None, "reasoning": "hm", "tool_calls": calls},
        {"role": "tool", "content": "there", "tool_call_id": "1", "name": "search"},
        {"role": "assistant", "content": "found"},
    ]
    nobody = [{"role": None, "content": "a client's"}, *said]
    entered = [Attempt("a", said=said), Attempt("b", said=said[:1]), Attempt("c")]
    enter(catalog, [*entered, Attempt("d", said=nobody)])
    made = built(catalog, "select attempt_id, 0.5 as weight from attempts", tokens="template")
    (row,) = rows_of(made)
    function = {"name": "search", "arguments": {"query": "x"}}
    broken = {"name": "search", "arguments": "{broken"}
    assert row["messages"] == [
        {"role": "user", "content": "find x"},
        {
            "role": "assistant",
            "content": "",
            "reasoning": "hm",
            "tool_calls": [
                {"id": "1", "type": "function", "function": function},
                {"id": "2", "type": "function", "function": broken},
            ],
            "weight": 0.5,
        },
        {"role": "tool", "content": "there", "tool_call_id": "1", "name": "search"},
        {"role": "assistant", "content": "found", "weight": 0.5},
    ]
    assert row["name"] == "a" and made.manifest["sequences"] == 1
    nothing = dict.fromkeys(("b", "c"), "no messages were recorded")
    assert left_out(made) == nothing | {"d": "a message has no role"}


def test_the_ancestors_are_the_cells_of_its_attempts(catalog: Catalog) -> None:
    """The cells lead to task set, engine and checkpoint, in both directions. Attempts that are left
    out and inputs that are no artifact are not ancestors."""
    catalog.enter_artifact("engine:1", {}, ["checkpoint:1"])
    catalog.enter_artifact("task_set:1", {})
    catalog.enter_artifact("cell:1", {}, ["task_set:1", "engine:1"])
    catalog.enter_artifact("cell:3", {}, ["task_set:1"])
    attempts = [
        Attempt("a"),
        Attempt("b", more={"cell_id": "cell:3"}, status="infra_error"),
        Attempt("c", more={"cell_id": "cell:unknown", "engine_id": "engine:1"}),
        Attempt("d", more={"cell_id": None, "engine_id": "engine:unknown"}),
    ]
    enter(catalog, attempts)
    made = built(catalog)
    assert catalog.parents(made.set_id) == ["cell:1", "engine:1", "task_set:1"]
    assert "checkpoint:1" in walk(catalog, made.set_id, "up").nodes
    assert made.set_id in walk(catalog, "checkpoint:1", "down").nodes
    only = built(catalog, ALL + " where attempt_id = 'a'")
    assert catalog.parents(only.set_id) == ["cell:1"]


def conversations(count: int) -> str:
    def row(n: int) -> Any:
        return {"messages": [{"role": "user", "content": f"{n}"}, {"role": "assistant"}]}

    return "".join(json.dumps(row(n)) + "\n" for n in range(count))


def test_a_file_of_conversations_is_a_set(catalog: Catalog, tmp_path: Path) -> None:
    """A share of them is held out if requested; duplicates are on the same side."""
    file = tmp_path / "said.jsonl"
    file.write_text(conversations(4) + conversations(4))
    made = conversation_set(TrainingData(file=file), catalog)
    assert len(rows_of(made)) == 8 and made.held_out is None
    data = TrainingData(file=file, held_out_share=0.25)
    shared = conversation_set(data, catalog)
    assert shared.set_id != made.set_id and shared.held_out is not None
    held, trained = shared.held_out.read_text(), shared.rows.read_text()
    assert len(held.splitlines()) == 2 and len(set(held.splitlines())) == 1
    assert not set(held.splitlines()) & set(trained.splitlines())
    assert conversation_set(data, catalog).set_id == shared.set_id


def test_a_file_is_compared_with_held_out_tasks(catalog: Catalog, tmp_path: Path) -> None:
    """Held-out tasks are those of the store and of the user's own files, for any speaker of the
    question; 200 test questions used to be trained on silently."""
    held = [f"Ann has {n} red apples and gives 4 to Bob. How many are left?" for n in range(20, 60)]
    enter(catalog, [], [task(f"t{n}", "test", text) for n, text in enumerate(held)])
    folder = catalog.home.root / "held_out"
    folder.mkdir()
    (folder / "never_measured.jsonl").write_text('{"question": "Who dug the lake of Ulm in 1731?"}')
    texts = [*held, "Who dug the lake of Ulm in 1731?", "Ann has 7 apples. How many are left?"]
    file = tmp_path / "said.jsonl"
    with file.open("w") as out:
        for n, text in enumerate(texts):
            roles = ("user", "assistant") if n % 2 else ("assistant", "user")
            messages = [{"role": roles[0], "content": f"Well: {text}"}]
            messages.append({"role": roles[1], "content": "yes"})
            out.write(json.dumps({"messages": messages}) + "\n")
    made = conversation_set(TrainingData(file=file), catalog)
    assert left_out(made) == dict.fromkeys(
        (f"line {n}" for n in range(1, 42)), "question of a held-out task"
    )
    assert len(rows_of(made)) == 1 and "not run" in made.manifest["guards"]["rewordings"]
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(JobError, match="nothing is left to train on: 41 x question of a held-out"):
        conversation_set(TrainingData(file=file), catalog)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("not json", "said.jsonl:3: not {"),
        ("[]", "said.jsonl:3: not {"),
        ('{"text": "a"}', "said.jsonl:3: not {"),
        ('{"messages": ["role"]}', "said.jsonl:3: not {"),
        ('{"messages": [{"content": "a"}]}', "said.jsonl:3: not {"),
        ('{"messages": [{"role": "user", "content": "a"}]}', "said.jsonl:3: no message of the"),
        ("", "said.jsonl:3: not {"),
    ],
)
def test_a_bad_line_is_named(catalog: Catalog, tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "said.jsonl"
    file.write_text(conversations(2) + line + "\n" + conversations(1))
    with pytest.raises(JobError, match=said.replace("{", r"\{")):
        conversation_set(TrainingData(file=file), catalog)
    assert not query("select * from artifacts", catalog.home)


def test_a_file_that_is_not_there_or_empty_is_named(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    for name, said in (("none.jsonl", "cannot be read"), ("empty.jsonl", "no conversation in it")):
        with pytest.raises(JobError, match=f"{name}: {said}"):
            conversation_set(TrainingData(file=tmp_path / name), catalog)


def test_a_gateways_programs_are_trained_on_unless_their_question_is_held_out(
    catalog: Catalog,
) -> None:
    """Such programs belong to no task set, so their users' messages are compared; other attempts
    without a task set are left out as before."""
    tasks = [task("t2", "test", "what is the capital of the moon")]
    attempts = []
    for name, text, source in (
        ("free", "another question", "gateway"),
        ("same", "What is the capital of the moon?", "gateway"),
        ("sweep", "another question", "sweep"),
    ):
        attempts.append({"attempt_id": name, "task_id": name, "status": "ok", "source": source})
        said = [{"role": "user", "content": text}, {"role": "assistant", "content": "yes"}]
        rows = [{"attempt_id": name, "position": nth, **each} for nth, each in enumerate(said)]
        commit(catalog, {"messages": rows})
    commit(catalog, {"attempts": attempts, "tasks": tasks})
    made = built(catalog, tokens="template")
    assert [row["name"] for row in rows_of(made)] == ["free"]
    assert left_out(made) == {
        "same": "question of a held-out task",
        "sweep": "task of no known split",
    }
