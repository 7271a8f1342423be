"""Tests of the originals' evaluation commands as tutti suites, end to end with scripted models.

The expected results are known: the correct answers, each publisher's rule and its metrics.
docs/evaluations.md has the commands side by side.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.benchmarks.conftest import data as data  # the fixture
from tests.benchmarks.conftest import load
from tests.evaluations.scripted import FACT, lines, players, solve, sweep, text_of, tutti
from tests.toolorchestra_service import toolorchestra_service
from tutti.tasks.benchmarks import Task
from tutti.tasks.platform.project import PROJECT

pytestmark = pytest.mark.slow

SUMS = [{"question": f"What is {n} + {n + 1}?", "answer": f"#### {2 * n + 1}"} for n in range(1, 5)]
EVEN = [{"question": f"What is {n} + {n}?", "answer": f"#### {2 * n}"} for n in range(1, 5)]
EXPERTS = {
    name: "expert"
    for name in (
        *("gpt-5", "gpt-5-mini", "Qwen3-32B", "Qwen2.5-Coder-32B", "Llama-3.3-70B"),
        *("Qwen2.5-Math-72B", "Qwen2.5-Math-7B"),
    )
}


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)


def suite(name: str, benchmark: str, **fields: Any) -> dict[str, Any]:
    """Return a suite with one cell of two sessions and the policy passthrough."""
    base = {"name": name, "benchmark": benchmark, "concurrency": [2], "policies": ["passthrough"]}
    return base | {"model": "solver"} | fields


def test_nemo_skills_repeated_samples(tmp_path: Path) -> None:
    """The suite for ``ns eval --benchmarks=gsm8k:4,aime25:8`` gives pass@k, majority@k and the
    average of k from known samples: half of the tasks are correct in every trial."""
    lines(tmp_path / "gsm8k/test.jsonl", SUMS + EVEN)
    aime = [{"id": n, "problem": f"What is {n} + {n + 1}?", "answer": 2 * n + 1} for n in (1, 2, 3)]
    lines(tmp_path / "aime/test.jsonl", aime)
    sampled = {"sampling": {"temperature": 1.0}, "limits": {"max_turns": 1}}
    with players(tmp_path) as registry:
        gsm8k = suite("gsm8k-4", "gsm8k:4", data={"source": "gsm8k"}, **sampled)
        rows = sweep(tmp_path, registry, gsm8k)
        aime_8 = suite("aime-8", "aime-25:8", data={"source": "aime"}, **sampled)
        assert len(sweep(tmp_path, registry, aime_8)) == 24
    assert len(rows) == 32
    right = {row["task_id"] for row in rows if row["correct"]}
    wrong = {row["task_id"] for row in rows if not row["correct"]}
    # 2 + 2 and 4 + 4 are sums that 4 divides
    assert (len(right), len(wrong)) == (6, 2)
    told = json.loads(tutti("report", "gsm8k-4", "--json"))
    (cell,) = told["cells"]
    trials = {trial["k"]: trial for trial in cell["trials"]}
    assert {k: (t["pass_at_k"], t["majority_at_k"]) for k, t in trials.items()} == {
        k: (pytest.approx(0.75), pytest.approx(0.75)) for k in (1, 2, 3, 4)
    }


@pytest.fixture
def documents(tmp_path: Path) -> str:
    """Return the folder of an index that contains the fact."""
    texts = [FACT, "Another page about tea.", "A page about trains to Bergen."]
    lines(tmp_path / "docs.jsonl", [{"id": f"d{n}", "text": text} for n, text in enumerate(texts)])
    return tutti("index", str(tmp_path / "docs.jsonl")).strip().splitlines()[-1]


@pytest.mark.parametrize(("benchmark", "rule"), [("frames", None), ("hle", "toolorchestra")])
def test_toolorchestra_with_experts_and_search(
    tmp_path: Path, documents: str, benchmark: str, rule: str | None
) -> None:
    """As in ``eval_frames.py`` and ``eval_hle.py``, the orchestrator searches, an expert answers,
    and the judge decides by the publisher's rule or ToolOrchestra's; every call is priced by
    role."""
    asked = "What number does the record say?"
    given = [{"id": f"q{n}", "question": f"{asked} ({n})", "answer": a} for n, a in ((1, "42"),)]
    given.append({"id": "q2", "question": f"{asked} (2)", "answer": "7"})
    rows = [row | {"answer_type": "exactMatch", "category": "Math"} for row in given]
    lines(tmp_path / f"questions/{benchmark}.jsonl", rows)
    agent = "toolorchestra-frames" if benchmark == "frames" else "toolorchestra"
    asked_for = suite(
        f"{benchmark}-orchestrated",
        benchmark,
        model="orchestrator",
        data={"source": "questions"} | ({} if rule is None else {"rule": rule}),
        roles={"agent": agent, "judge": "judge", "experts": EXPERTS},
        harness={"search_index": documents},
    )

    def judge(body: dict[str, Any]) -> dict[str, Any]:
        right = f"{asked} (1)" in text_of(body)
        hle = json.dumps({"extracted_final_answer": "42", "correct": "yes" if right else "no"})
        decided = f"Decision: {'TRUE' if right else 'FALSE'}\n<correct>{right}</correct>"
        return {"content": f"{hle}\n{decided}"}

    with players(tmp_path, judge=judge) as registry:
        attempts = sweep(tmp_path, registry, asked_for)
    own = {"frames": "frames_judge", "hle": "hle_judge"}[benchmark]
    assert {row["scorer"] for row in attempts} == {"toolorchestra_judge" if rule else own}
    assert sorted(row["correct"] for row in attempts) == [False, True]
    told = "select role, count(*) n from calls semi join attempts using (attempt_id) group by 1"
    roles = json.loads(tutti("sql", "--json", told))
    counts = {row["role"]: row["n"] for row in roles}
    # a search and an answer by each orchestrator, an expert each; ToolOrchestra's rule decides an
    # equal text without its judge
    assert counts == {"orchestrator": 4, "expert": 4, "judge": 1 if rule else 2}


@pytest.mark.parametrize("benchmark", ["hle", "frames"])
def test_toolorchestras_own_files_and_retriever(tmp_path: Path, benchmark: str) -> None:
    """The suite that `tutti init --model-config --tools` writes searches with ToolOrchestra's own
    service: each request has the question's id, and `retrievals` names the index's owner."""
    given = [
        {"id": f"{benchmark}____{n}", "question": f"What number? ({n})", "answer": "42"}
        for n in (1, 2)
    ]
    lines(tmp_path / f"questions/{benchmark}.jsonl", given)
    pools = {row["id"]: [FACT] for row in given}
    table = "Model | in | out | latency\nsearch-1 | $1 | $2 | 3s\n. search-1 is good."
    tools = [
        {"function": {"name": name, "parameters": {"properties": {"model": {"description": said}}}}}
        for name, said in (("search", table), ("answer", table.replace("search", "answer")))
    ]
    (tmp_path / "tools.json").write_text(json.dumps(tools))
    with toolorchestra_service(pools if benchmark == "hle" else [FACT]) as (url, asked):
        at = [{"ip_addr": "127.0.0.1", "port": url.rsplit(":", 1)[1]}]
        service = "retrieval" if benchmark == "hle" else "wiki_retrieval"
        (tmp_path / "c.json").write_text(json.dumps({"orchestrator": at, "judge": at, service: at}))
        tutti("init", "own", "--model-config", "c.json", "--tools", "tools.json")
        written = yaml.safe_load((tmp_path / "own/orchestrator.yaml").read_text())
        assert written["benchmark"] == benchmark
        written |= {"data": {"source": "questions"}, "concurrency": [2]}
        here = ("gpt-5", "gpt-5-mini", "Qwen3-32B", "Qwen2.5-Coder-32B")
        experts = {name: EXPERTS[name] for name in here}
        written["roles"] |= {"experts": experts, "agent": str(tmp_path / "own/agent.yaml")}
        with players(tmp_path) as registry:
            attempts = sweep(tmp_path, registry, written)
    assert [row["correct"] for row in attempts] == [True, True]
    assert sorted(body["eid"] for body in asked) == [row["id"] for row in given]
    assert {body["topk"] for body in asked} == {50 if benchmark == "hle" else 150}
    told = json.loads(
        tutti("sql", "--json", "select index_id, count(*) n from retrievals group by 1")
    )
    assert told == [{"index_id": "toolorchestra", "n": 2}]


def test_thunderagents_hle_sweep_scaled_down(tmp_path: Path, documents: str) -> None:
    """The shipped suite `thunderagent-hle` with fewer sessions gives the same answers under every
    policy, with a row of figures each."""
    rows = [
        {"id": f"q{n}", "question": f"What number does the record say? ({n})", "answer": "42"}
        for n in range(6)
    ]
    lines(tmp_path / "questions/hle.jsonl", rows)
    scaled = suite(
        "thunderagent-hle-small",
        "hle",
        model="orchestrator",
        concurrency=[2, 4],
        policies=["passthrough", "continuum", "thunderagent", "adaptive"],
        data={"source": "questions"},
        roles={
            "agent": "thunderagent-hle",
            "judge": "judge",
            "experts": dict.fromkeys(("gpt-5", "gpt-5-mini", "gpt-oss-120b"), "expert"),
        },
        harness={"search_index": documents},
    )
    with players(tmp_path) as registry:
        attempts = sweep(tmp_path, registry, scaled)
    assert len(attempts) == 6 * 2 * 4 and all(row["correct"] for row in attempts)


def test_api_bank_levels_1_to_3(data: Path, tmp_path: Path) -> None:
    """As in ``evaluator.py``, gold calls for every second item get the scores of API-Bank's own
    rule."""
    for level in (1, 2):
        name = f"api-bank-{level}"
        items = [item for item in load(name, data / "api-bank") if _sound(item)][:8]
        asked = suite(
            name,
            name,
            data={"source": str(data / "api-bank"), "ids": [item.key for item in items]},
        )
        with players(tmp_path, solver=_gold_of_every_second(items)) as registry:
            rows = sweep(tmp_path, registry, asked)
        assert {row["scorer"] for row in rows} == {"api_bank_recorded"}
        assert sum(bool(row["correct"]) for row in rows) == 4, name


def _sound(item: Task) -> bool:
    return item.attributes["known_bad"] == "no"


def _gold_of_every_second(items: list[Task]) -> Any:
    """Return a solver that makes the gold call of every second item and no other call."""
    from tutti.tasks.benchmarks.benchmark import gold_calls

    known = {"\n".join(str(m.get("content") or "") for m in i.given): i for i in items}
    right = {item.key for item in items[::2]}

    def reply(body: dict[str, Any]) -> dict[str, Any]:
        said = text_of(body)
        item = next((item for text, item in known.items() if said.endswith(text)), None)
        if item is None:  # the first call of a run
            return {"content": "yes"}
        if item.key not in right:
            return {"content": "I do not know."}
        calls = gold_calls(item)
        return {"content": None, "tool_calls": calls, "finish_reason": "tool_calls"}

    return reply


def test_ifbench_and_math_odyssey(tmp_path: Path) -> None:
    """IFBench has prompt-level loose accuracy without instructions that cannot be checked;
    MathOdyssey has the share of correct answers."""
    kinds = ["format:no_whitespace", "count:numbers", "words:start_verb"]
    rows = [
        {"key": str(n), "prompt": f"Do {n}.", "instruction_id_list": [kind], "kwargs": [{"N": 9}]}
        for n, kind in enumerate(kinds)
    ]
    lines(tmp_path / "ifbench/IFBench_test.jsonl", rows)
    sums = [(1, "3\\\\\n\\noindent"), (2, "6")]  # 2 + 3 is not 6
    problems = [
        {
            f"Problem_{n}": {
                "question": f"What is {n} + {n + 1}?",
                "answer": answer,
                "label": "Algebra",
                "level": "high school math",
            }
        }
        for n, answer in sums
    ]
    lines(tmp_path / "odyssey/test.jsonl", problems)

    def solver(body: dict[str, Any]) -> dict[str, Any]:
        return solve(body) if "+" in text_of(body) else {"content": "Here:\nnospace"}

    with players(tmp_path, solver=solver) as registry:
        found = sweep(tmp_path, registry, suite("ifb", "ifbench", data={"source": "ifbench"}))
        solved = sweep(tmp_path, registry, suite("ody", "math-odyssey", data={"source": "odyssey"}))
    assert sorted(str(row["correct"]) for row in found) == ["False", "None", "True"]
    assert sorted(row["correct"] for row in solved) == [False, True]
    (cell,) = json.loads(tutti("report", "ifb", "--json"))["cells"]
    assert cell["accuracy"] == 0.5


def test_evalplus_mbpp(tmp_path: Path) -> None:
    """The solutions for ``evalplus.evaluate --dataset mbpp`` are a correct one with complex
    numbers, one that fails only on a plus input, and a function with a builtin's name."""
    tasks = (
        ("Mbpp/252", "convert", "return abs(x)", [["3+4j"]]),
        ("Mbpp/9001", "half", "return x / 2", [[4], [7]]),
        ("Mbpp/126", "sum", "return x + 1", [[1]]),
    )
    rows = [
        {
            "task_id": task,
            "prompt": f'"""\nWrite {name}.\nassert {name}\n"""\n',
            "entry_point": name,
            "canonical_solution": f"\ndef {name}(x):\n  {body}\n",
            "base_input": inputs[:1],
            "plus_input": inputs[1:],
            "atol": 0,
        }
        for task, name, body, inputs in tasks
    ]
    lines(tmp_path / "mbpp/MbppPlus.jsonl", rows)

    def solver(body: dict[str, Any]) -> dict[str, Any]:
        said = {"convert": "abs(x)", "half": "x // 2", "sum": "1 + x"}
        name = next((name for name in said if f"Write {name}" in text_of(body)), "convert")
        return {"content": f"```python\ndef {name}(x):\n    return {said[name]}\n```"}

    with players(tmp_path, solver=solver) as registry:
        found = sweep(tmp_path, registry, suite("mbpp", "mbpp-plus", data={"source": "mbpp"}))
    assert sorted(row["correct"] for row in found) == [False, True, True]
    assert {row["scorer"] for row in found} == {"code"}
    (wrong,) = (row for row in found if not row["correct"])
    assert "AssertionError: ([7], 3, 3.5)" in json.dumps(wrong["detail"])


def test_bigcodebench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``bigcodebench.evaluate`` has two constructed tasks, one solved. With a third, which needs a
    package, the sweep does not start."""
    monkeypatch.delenv("TUTTI_CODE_PYTHON", raising=False)
    made = PROJECT / "bench/evaluations/made/BigCodeBench.jsonl"
    rows = [json.loads(line) for line in made.read_text().splitlines()]
    chosen = [row for row in rows if row["task_id"] in ("Made/0", "Made/4", "Made/6")]
    lines(tmp_path / "bcb/BigCodeBench.jsonl", chosen)

    def solver(body: dict[str, Any]) -> dict[str, Any]:
        asked = text_of(body)
        row = next((row for row in chosen if row["complete_prompt"].strip() in asked), chosen[0])
        code = row["complete_prompt"] + row["canonical_solution"]
        if "random" in asked:
            code = code.replace("randint(0, 9)", "randint(0, 99)")
        return {"content": f"Sure:\n```python\n{code}```\nThis is the function."}

    with players(tmp_path, solver=solver) as registry:
        with pytest.raises(AssertionError, match=r"(?s)1 of 3 tasks .*TUTTI_CODE_PYTHON.*numpy"):
            sweep(tmp_path, registry, suite("bcb", "bigcodebench", data={"source": "bcb"}))
        data = {"source": "bcb", "where": "modules not like '%numpy%'"}
        found = sweep(tmp_path, registry, suite("bcb", "bigcodebench", data=data))
    right, wrong = sorted(found, key=lambda row: str(row["correct"]), reverse=True)
    assert right["scorer"] == "bigcodebench" and right["correct"]
    assert json.loads(wrong["detail"])["failed"] == ["failed test_range"]
