"""Tests of exports of training sets: small golden files, counts of dropped parts, and refusals."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the store needs the platform: make test-fast")

import pyarrow.parquet as pq

from tests.training.sets.recorded import ENDS, REWRITTEN, Attempt, enter, task
from tutti.storage import Catalog
from tutti.tasks.training import (
    TrainingData,
    build_set,
    conversation_set,
    export_training_set,
)
from tutti.tasks.training.exports import SET_FORMATS
from tutti.tasks.training.exports.conversation import ExportRefused

ADD = {"name": "add", "parameters": {"properties": {"a": {}, "b": {}}}}


def said(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content} | more


def called(*arguments: Any) -> list[dict[str, Any]]:
    made = [{"name": "add", "arguments": each} for each in arguments]
    return [{"id": str(n), "type": "function", "function": each} for n, each in enumerate(made)]


PLAIN = {
    "messages": [
        said("system", "Be short."),
        said("user", "2 + 3?"),
        said("assistant", "5"),
        said("user", "Doubled?"),
        said("assistant", "10", reasoning="5 + 5", weight=0.5),
    ]
}
TOOLS = {
    "messages": [
        said("user", "2 + 3, 4 + 5?"),
        said("assistant", "Both.", tool_calls=called({"a": 2, "b": 3}, {"a": 4, "b": 5})),
        said("tool", "5", tool_call_id="0"),
        said("tool", "9", tool_call_id="1"),
        said("assistant", "", tool_calls=called({"a": 5, "b": 9})),
        said("tool", "14", tool_call_id="0"),
        said("assistant", "14"),
    ],
    "tools": [{"type": "function", "function": ADD}],
}
WEIGHTS = "conversations or sequences without their weights (each counts 1)"


def of_file(catalog: Catalog, tmp_path: Path, *rows: dict[str, Any], **data: Any) -> str:
    file = tmp_path / "said.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return conversation_set(TrainingData(file=file, **data), catalog).set_id


def of_attempts(catalog: Catalog, sql: str, objective: str = "sft", **data: Any) -> str:
    asked = TrainingData.model_validate({"from": sql} | data)
    return build_set(asked, ENDS, catalog, objective).set_id


def test_alpaca(catalog: Catalog, tmp_path: Path) -> None:
    """Earlier turns are the history; tools are left out and counted."""
    made = export_training_set(
        of_file(catalog, tmp_path, PLAIN, TOOLS), "alpaca", tmp_path / "out", catalog
    )
    assert json.loads((tmp_path / "out" / "train.json").read_text()) == [
        {
            "instruction": "Doubled?",
            "input": "",
            "output": "<think>\n5 + 5\n</think>\n\n10",
            "system": "Be short.",
            "history": [["2 + 3?", "5"]],
        }
    ]
    left_out = "conversations left out: tools (sharegpt carries them)"
    assert made["notes"] == {WEIGHTS: 1, left_out: 1}
    info = json.loads((tmp_path / "out" / "dataset_info.json").read_text())
    assert info["train"]["file_name"] == "train.json"
    assert info["train"]["columns"]["prompt"] == "instruction"


def test_sharegpt(catalog: Catalog, tmp_path: Path) -> None:
    """Calls and results have their own roles, and turns alternate."""
    made = export_training_set(
        of_file(catalog, tmp_path, TOOLS), "sharegpt", tmp_path / "out", catalog
    )
    two = '[{"name": "add", "arguments": {"a": 2, "b": 3}}, '
    two += '{"name": "add", "arguments": {"a": 4, "b": 5}}]'
    (row,) = json.loads((tmp_path / "out" / "train.json").read_text())
    assert row["conversations"] == [
        {"from": "human", "value": "2 + 3, 4 + 5?"},
        {"from": "function_call", "value": f"Both.<tool_call>{two}</tool_call>"},
        {"from": "observation", "value": "5\n</tool_response>\n<tool_response>\n9"},
        {"from": "function_call", "value": '{"name": "add", "arguments": {"a": 5, "b": 9}}'},
        {"from": "observation", "value": "14"},
        {"from": "gpt", "value": "14"},
    ]
    assert json.loads(row["tools"]) == [ADD] and made["notes"] == {}
    info = json.loads((tmp_path / "out" / "dataset_info.json").read_text())
    assert info["train"]["tags"]["function_tag"] == "function_call"


def test_a_set_that_is_older_than_a_held_out_task_is_compared_again(
    catalog: Catalog, tmp_path: Path
) -> None:
    set_id = of_file(catalog, tmp_path, PLAIN, TOOLS)
    enter(catalog, [], [task("late", "test", "2 + 3, 4 + 5?")])
    made = export_training_set(set_id, "sharegpt", tmp_path / "out", catalog)
    assert len(json.loads((tmp_path / "out" / "train.json").read_text())) == 1
    assert made["notes"]["conversations left out: question of a held-out task"] == 1
    enter(catalog, [], [task("other", "test", "Doubled?")])
    with pytest.raises(ExportRefused, match="every conversation copies a held-out text"):
        export_training_set(set_id, "sharegpt", tmp_path / "more", catalog)


def test_labels_of_kto_are_kept(catalog: Catalog, tmp_path: Path) -> None:
    bad, good = PLAIN | {"wanted": False}, TOOLS | {"wanted": True}
    set_id = of_file(catalog, tmp_path, bad, good)
    export_training_set(set_id, "sharegpt", tmp_path / "out", catalog)
    rows = json.loads((tmp_path / "out" / "train.json").read_text())
    assert [row["label"] for row in rows] == [False, True]
    info = json.loads((tmp_path / "out" / "dataset_info.json").read_text())
    assert info["train"]["columns"]["kto_tag"] == "label"
    made = export_training_set(set_id, "prime-rl", tmp_path / "other", catalog)
    assert pq.read_table(tmp_path / "other" / "train").num_rows == 1
    assert "conversations left out: not wanted (this format has no label)" in made["notes"]


def test_recorded_ids_export_their_messages(catalog: Catalog, tmp_path: Path) -> None:
    """An attempt of two sequences is one conversation; its task gives verl's reward."""
    one = [said("user", "what is t1"), said("assistant", "3")]
    attempts = [
        Attempt("a1", said=one, more={"benchmark": "b"}),
        Attempt("a2", "t2", turns=REWRITTEN, said=one, more={"benchmark": "b"}),
    ]
    known = task("t2", "train") | {"answer": "four", "family": "f"}
    enter(catalog, attempts, [known])
    set_id = of_attempts(catalog, "select attempt_id from attempts")
    made = export_training_set(set_id, "verl", tmp_path / "out", catalog)
    assert made["conversations"] == 2
    assert made["notes"] == {
        "further sequences of an attempt (its messages are written once)": 1,
        "attempts without their log probabilities and token ids": 2,
        "conversations without a row in rl.parquet: no known task and answer": 1,
    }
    rows = pq.read_table(tmp_path / "out" / "sft.parquet").to_pylist()
    assert [row["messages"] for row in rows] == [one, one]
    (row,) = pq.read_table(tmp_path / "out" / "rl.parquet").to_pylist()
    assert row == {
        "data_source": "b",
        "prompt": one[:1],
        "ability": "f",
        "reward_model": {"style": "rule", "ground_truth": "four"},
        "extra_info": {"split": "train", "index": 0, "task_id": "t2"},
    }


def test_wire_form_of_calls(catalog: Catalog, tmp_path: Path) -> None:
    """Arguments are JSON text, and no message has an unused field."""
    set_id = of_file(catalog, tmp_path, TOOLS)
    export_training_set(set_id, "prime-rl", tmp_path / "out", catalog)
    (row,) = pq.read_table(tmp_path / "out" / "train" / "train.parquet").to_pylist()
    first = row["messages"][1]
    assert first["tool_calls"][1]["function"] == {"name": "add", "arguments": '{"a": 4, "b": 5}'}
    assert "reasoning_content" not in first and json.loads(row["tools"]) == TOOLS["tools"]


@pytest.mark.parametrize("format", SET_FORMATS)
def test_both_sides_and_all_rows_are_written(catalog: Catalog, tmp_path: Path, format: str) -> None:
    """Ten conversations give ten rows, a fifth of them held out."""
    rows = [
        {"messages": [said("user", f"{n} + 1?"), said("assistant", str(n + 1))]} for n in range(10)
    ]
    set_id = of_file(catalog, tmp_path, *rows, held_out_share=0.2)
    made = export_training_set(set_id, format, tmp_path / "out", catalog)
    counts = {}
    for file in map(Path, made["files"]):
        name = file.relative_to(tmp_path / "out").as_posix()
        if file.suffix == ".parquet":
            counts[name] = pq.read_table(file).num_rows
        elif file.suffix == ".jsonl":
            counts[name] = len(file.read_text().splitlines())
        elif file.stem != "dataset_info":
            counts[name] = len(json.loads(file.read_text()))
    assert sorted(counts.values()) == [2, 8] and made["conversations"] == 10


def test_refusals_write_nothing(catalog: Catalog, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(ExportRefused, match="training_set:nix: no such training set"):
        export_training_set("training_set:nix", "alpaca", out, catalog)
    set_id = of_file(catalog, tmp_path, TOOLS)
    with pytest.raises(ExportRefused, match="alpacca: no format of training sets; known: alpaca"):
        export_training_set(set_id, "alpacca", out, catalog)
    with pytest.raises(ExportRefused, match="nothing is left to export: 1 x conversations left"):
        export_training_set(set_id, "alpaca", out, catalog)
    pairs = [Attempt("a1"), Attempt("a2")]
    enter(catalog, pairs)
    paired = of_attempts(catalog, "select 'a1' as chosen, 'a2' as rejected", "dpo")
    with pytest.raises(ExportRefused, match="a set of pairs compares whole attempts"):
        export_training_set(paired, "sharegpt", out, catalog)
    unsaid = of_attempts(catalog, "select attempt_id from attempts")
    with pytest.raises(ExportRefused, match="a1: the store has no messages of this attempt"):
        export_training_set(unsaid, "sharegpt", out, catalog)
    assert not out.exists() or not any(out.iterdir())
    export_training_set(set_id, "sharegpt", out, catalog)
    with pytest.raises(ExportRefused, match=r"train\.json: exists already; --force replaces it"):
        export_training_set(set_id, "sharegpt", out, catalog)
    export_training_set(set_id, "sharegpt", out, catalog, force=True)
