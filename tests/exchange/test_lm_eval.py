"""Tests of the samples of lm-evaluation-harness 0.4.13, in the format that a run with its dummy
model writes."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exchange.imported import (
    DROP,
    Record,
    changed,
    check_others_are_kept,
    keys,
    mutated_lines,
    said,
    taken,
    write_json,
    write_lines,
)
from tutti.tasks.exchange.lm_eval import read

TIME = "2026-11-21T07-34-19.443863"
SETTINGS = {"until": ["\n"], "do_sample": True, "temperature": 0.7, "max_gen_toks": 32}
RESULTS = {
    "results": {"toy": {"alias": "toy", "exact_match,strict-match": 0.5}},
    "configs": {"toy": {"task": "toy", "output_type": "generate_until", "repeats": 2}},
    "versions": {"toy": 3.0, "mc": 1.0},
    "higher_is_better": {"toy": {"exact_match": True}, "mc": {"acc": True}, "ppl": {"loss": False}},
    "config": {"model": "hf", "model_args": {"pretrained": "org/tiny"}, "random_seed": 0},
    "git_hash": None,
    "date": 1795246458.94,
    "lm_eval_version": "0.4.13",
    "model_source": "hf",
    "model_name": "org/tiny",
    "model_name_sanitized": "org__tiny",
}


def sample(doc_id: Any = 0, name: str = "strict-match", value: Any = 1.0, **more: Any) -> Record:
    """Return a line of a generation task with one filter's score."""
    return {
        "doc_id": doc_id,
        "doc": {"q": "What is 0+0?", "a": "0"},
        "target": "0",
        "arguments": {"gen_args_0": {"arg_0": "Q: What is 0+0?\nA:", "arg_1": SETTINGS}},
        "resps": [["It is 0", "0 maybe"]],
        "filtered_resps": ["0"],
        "filter": name,
        "metrics": ["exact_match"],
        "doc_hash": "472d",
        "prompt_hash": "195d",
        "target_hash": "5fec",
        "exact_match": value,
    } | more


def choice(doc_id: Any = 0, **more: Any) -> Record:
    """Return a line of a multiple-choice task with a request for each choice."""
    choices = [" red", " green", " blue"]
    return {
        "doc_id": doc_id,
        "doc": {"q": "Colour?", "choices": ["red", "green", "blue"], "gold": 1},
        "target": "1",
        "arguments": {
            f"gen_args_{n}": {"arg_0": "Colour?", "arg_1": text} for n, text in enumerate(choices)
        },
        "resps": [[["-2.5", "False"]], [["-0.25", "True"]], [["-7.0", "False"]]],
        "filtered_resps": [["-2.5", "False"], ["-0.25", "True"], ["-7.0", "False"]],
        "filter": "none",
        "metrics": ["acc", "acc_norm"],
        "doc_hash": "09bb",
        "prompt_hash": "8246",
        "target_hash": "5fec",
        "acc": 1.0,
        "acc_norm": 0.0,
    } | more


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the output folder of a run, named after the model."""
    write_json(tmp_path / "org__tiny" / f"results_{TIME}.json", RESULTS)
    return tmp_path / "org__tiny"


def samples(folder: Path, records: list[Any], task: str = "toy") -> Path:
    """Write a file of samples under the harness's file name."""
    return write_lines(folder / f"samples_{task}_{TIME}.jsonl", records)


def test_a_document_becomes_a_trial_with_a_score_for_each_filter(folder: Path) -> None:
    """All lines of one filter precede the next; the metric of the first filter decides."""
    lines = [sample(0), sample(1, value=0.0)]
    lines += [sample(0, "flexible", 0.0, filtered_resps=["It is 0"]), sample(1, "flexible")]
    trials, problems = taken(read(samples(folder, lines), "run"))
    assert problems == []
    assert [(t.task_id, t.trial, t.line) for t in trials] == [("0", 0, 1), ("1", 0, 2)]
    cell = trials[0].cell
    assert (cell.run, cell.benchmark, cell.model) == (TIME, "toy", "org/tiny")
    assert cell.detail["task"]["repeats"] == 2
    assert cell.detail["lm_eval_version"] == "0.4.13"
    first, second = trials[0].scores
    assert (first["scorer"], first["value"], first["correct"]) == (
        "exact_match/strict-match",
        1.0,
        True,
    )
    assert first["scorer_version"] == "3.0"
    assert json.loads(first["detail"]) == {"expected": "0", "filtered_resps": ["0"]}
    assert (second["scorer"], second["correct"]) == ("exact_match/flexible", False)
    assert trials[0].outcome == {"status": "ok", "answer": "0", "score": 1.0, "correct": True}
    assert [t.outcome["correct"] for t in trials] == [True, False]


def test_each_response_is_a_call(folder: Path) -> None:
    ((trial,), _) = taken(read(samples(folder, [sample()]), "run"))
    assert [(m["role"], m["content"], m.get("call_id")) for m in trial.messages] == [
        ("user", "Q: What is 0+0?\nA:", None),
        ("assistant", "It is 0", "call-1"),
        ("assistant", "0 maybe", "call-2"),
    ]
    assert [json.loads(call["params"]) for call in trial.calls] == [SETTINGS, SETTINGS]
    assert {(call["role"], call["model"]) for call in trial.calls} == {("orchestrator", "org/tiny")}


def test_likelihoods_are_in_the_scores_detail(folder: Path) -> None:
    """There is a request for each choice; the most likely choice is the answer."""
    ((trial,), problems) = taken(read(samples(folder, [choice()], "mc"), "run"))
    assert problems == []
    assert [message["content"] for message in trial.messages] == ["Colour?"]
    assert json.loads(trial.calls[1]["params"]) == {
        "request": "loglikelihood",
        "continuation": " green",
    }
    assert trial.outcome["answer"] == "green"
    assert [(s["scorer"], s["correct"]) for s in trial.scores] == [
        ("acc/none", True),
        ("acc_norm/none", False),
    ]
    assert json.loads(trial.scores[0]["detail"])["requests"] == [
        {"continuation": " red", "loglikelihood": -2.5, "is_greedy": False},
        {"continuation": " green", "loglikelihood": -0.25, "is_greedy": True},
        {"continuation": " blue", "loglikelihood": -7.0, "is_greedy": False},
    ]


def test_unconditional_likelihoods_are_no_choices(folder: Path) -> None:
    """acc_mutual_info requests every choice again without the question."""
    record = choice()
    record["arguments"]["gen_args_3"] = {"arg_0": "", "arg_1": " red"}
    record["resps"].append([["-0.001", "True"]])
    ((trial,), _) = taken(read(samples(folder, [record], "mc"), "run"))
    assert trial.outcome["answer"] == "green"
    assert json.loads(trial.scores[0]["detail"])["requests"][3]["context"] == ""


def test_a_likelihood_that_is_no_number_is_named(folder: Path) -> None:
    """The value is left out, never NaN; without it no choice is the most likely."""
    records = [changed(choice(), "resps.1.0.0", text) for text in ("nan", "-inf", "x", None)]
    for record in records:
        ((trial,), problems) = taken(read(samples(folder, [record], "mc"), "run"))
        assert said(problems) == [(1, "resps.1.0")]
        assert "answer" not in trial.outcome
        assert "loglikelihood" not in json.loads(trial.scores[0]["detail"])["requests"][1]


def test_a_metric_over_all_documents_keeps_its_parts(folder: Path) -> None:
    """Perplexities are computed from sums; for a metric where lower is better, 1 is not correct."""
    record = choice(metrics=["word_perplexity", "loss"], word_perplexity=[-0.9, 5], loss=1.0)
    record |= {"arguments": {"gen_args_0": {"arg_0": "a text"}}, "resps": [["-0.9"]]}
    record |= {"filtered_resps": ["-0.9"]}
    ((trial,), problems) = taken(read(samples(folder, [record], "ppl"), "run"))
    assert problems == []
    parts, loss = trial.scores
    assert "value" not in parts
    assert json.loads(parts["detail"])["value"] == [-0.9, 5]
    assert json.loads(parts["detail"])["requests"] == [{"loglikelihood": -0.9}]
    assert (loss["value"], loss.get("correct")) == (1.0, None)
    assert "score" not in trial.outcome


def test_a_chat_template_makes_messages_of_the_prompt(folder: Path) -> None:
    """The harness writes the conversation as JSON text, alone or in a list."""
    turns = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]
    for prompt in (json.dumps(turns), [json.dumps(turns)]):
        record = changed(sample(), "arguments.gen_args_0.arg_0", prompt)
        ((trial,), problems) = taken(read(samples(folder, [record]), "run"))
        assert problems == []
        assert trial.messages[:2] == turns
    record = changed(sample(), "arguments.gen_args_0.arg_0", '[{"only": "looks so"}]')
    ((trial,), _) = taken(read(samples(folder, [record]), "run"))
    assert trial.messages[0] == {"role": "user", "content": '[{"only": "looks so"}]'}


def test_older_lines_are_read_too(folder: Path) -> None:
    """Older lines have arguments as lists, no list of metrics, no filter, and booleans."""
    record = sample(value=True, arguments=[["Q", SETTINGS]])
    del record["metrics"], record["filter"]
    ((trial,), problems) = taken(read(samples(folder, [record]), "run"))
    assert problems == []
    assert [(s["scorer"], s["value"], s["correct"]) for s in trial.scores] == [
        ("exact_match/none", 1.0, True)
    ]


def test_the_model_is_found_where_it_is_told(tmp_path: Path, folder: Path) -> None:
    path = samples(folder, [sample()])
    results = folder / f"results_{TIME}.json"
    for record, name in [
        (RESULTS, "org/tiny"),
        ({"config": {"model_args": "dtype=auto,pretrained=a/b"}}, "a/b"),
        ({"config": {"model_args": {"model": "c"}}}, "c"),
        ({}, "org/tiny"),
    ]:
        write_json(results, record)
        ((trial,), _) = taken(read(path, "run"))
        assert trial.cell.model == name
    ((trial,), _) = taken(read(write_lines(tmp_path / "mine.jsonl", [sample()]), "run"))
    assert (trial.cell.run, trial.cell.benchmark, trial.cell.model) == ("run", "mine", "unknown")


def test_a_folder_is_read_with_its_tasks(tmp_path: Path, folder: Path) -> None:
    """Broken results beside the samples are reported once."""
    samples(folder, [sample()])
    samples(folder, [choice()], "mc")
    trials, problems = taken(read(tmp_path, "run"))
    assert sorted(trial.cell.benchmark for trial in trials) == ["mc", "toy"]
    (folder / f"results_{TIME}.json").write_text("{")
    trials, problems = taken(read(tmp_path, "run"))
    assert (len(trials), len(problems)) == (2, 1)
    assert len(taken(read(tmp_path / "none", "run"))[1]) == 1


def test_a_grown_file_gives_the_same_trials(folder: Path) -> None:
    before, _ = taken(read(samples(folder, [sample(0), sample(5)]), "run"))
    after, _ = taken(read(samples(folder, [sample(0), sample(5), sample(6)]), "run"))
    assert keys(after)[:2] == keys(before)


def test_a_document_that_comes_twice_is_named(folder: Path) -> None:
    lines = [sample(0), sample(0, value=0.0)]
    ((trial,), problems) = taken(read(samples(folder, lines), "run"))
    assert trial.outcome["score"] == 1.0
    assert said(problems) == [(2, "doc_id")]


def test_a_document_lives_by_any_of_its_lines(folder: Path) -> None:
    """The first filter's line is broken, the second's is valid."""
    lines = [b'{"doc_id": 0, "doc": ', sample(0, "flexible")]
    ((trial,), problems) = taken(read(samples(folder, lines), "run"))
    assert trial.line == 2
    assert [score["scorer"] for score in trial.scores] == ["exact_match/flexible"]
    assert said(problems) == [(1, "")]


@pytest.mark.parametrize(
    "path, value, field, kept",
    [
        ("exact_match", "1.0", "exact_match", True),
        ("exact_match", float("nan"), "exact_match", True),
        ("exact_match", DROP, "metrics.0", True),
        ("metrics", [3, "exact_match"], "metrics.0", True),
        ("metrics", "exact_match", "metrics", True),
        ("filter", 4, "filter", True),
        ("resps", [], "resps", True),
        ("resps.0", "text", "resps.0", True),
        ("resps.0.1", 5, "resps.0.1", True),
        ("filtered_resps", "x", "filtered_resps", True),
        ("doc_id", "", "doc_id", False),
        ("doc_id", 1.5, "doc_id", False),
        ("arguments", DROP, "arguments", False),
        ("arguments.gen_args_0", "x", "arguments", False),
        ("arguments.gen_args_0.arg_0", 7, "arguments.gen_args_0.arg_0", False),
    ],
)
def test_a_bad_field_is_named_once(
    folder: Path, path: str, value: Any, field: str, kept: bool
) -> None:
    lines = [sample(10), changed(sample(11), path, value), sample(12)]
    trials, problems = taken(read(samples(folder, lines), "run"))
    assert [t.task_id for t in trials] == (["10", "11", "12"] if kept else ["10", "12"])
    assert said(problems)[0] == (2, field)
    assert len(set(map(str, problems))) == len(problems)


@given(line=st.data())
def test_no_line_costs_another_its_trial(
    tmp_path_factory: pytest.TempPathFactory, line: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("l")
    write_json(folder / f"results_{TIME}.json", RESULTS)
    make = line.draw(st.sampled_from([sample, choice]))
    records = [make(doc_id) for doc_id in (111_111, 2_222_222_222, 333_333_333_333)]
    path = folder / f"samples_toy_{TIME}.jsonl"
    check_others_are_kept(read, path, records, line.draw(mutated_lines(records[1])))
