"""Tests of the bench's plan: the order of runs, the stored results and the summary line."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.report import Report
from bench.scheduling.arms import Arm, arm_named, arms_named, gateway_command
from bench.scheduling.engine import SETUPS, with_pauses
from bench.scheduling.figures import bootstrap, enter_figures, oracle_of
from bench.scheduling.peers import THUNDERAGENT, PeerMissing, Peers
from bench.scheduling.plan import (
    CAPS_KEPT,
    DEFAULT_PLAN,
    SWEEP_BLOCKS,
    Group,
    arms_of_block,
    make_plan,
    read_arms,
    spec_of,
)
from bench.scheduling.records import FILE, Record, Records
from bench.scheduling.run import main, parse

SMALL = SETUPS["small"]
GROUP = Group("small", "append", 3.0, 12, (("direct", 12), ("cap", 12), ("vllm-router", 1)))


def record(arm: str, block: int, rate: float, group: Group = GROUP) -> Record:
    spec = spec_of(group, SMALL, block, arm_named(arm), 1)
    names = "steps_per_min_20_80 steps_per_min_10_90 steps_per_min_25_75 whole_steps_per_min"
    names += " hit_share recomputed_tokens preemptions latency_p50_s latency_p95_s latency_p99_s"
    names += " latency_p100_s jain idle_share tries_more failed_programs seconds"
    return Record(spec, dict.fromkeys(names.split(), 1.0) | {"steps_per_min": rate}, {})


def test_arms_by_name() -> None:
    assert arm_named("cap-16") == Arm("cap-16", policy="cap", limit=16)
    assert arm_named("ThunderAgent-0.5s").interval_s == 0.5
    assert arm_named("ThunderAgent-5s").is_peer and arm_named("vllm-router").is_peer
    assert not arm_named("thunderagent").is_peer  # ours, made from its description
    for wrong in ("cap-0", "cap", "best", "ThunderAgent"):
        with pytest.raises(ValueError, match="no arm is called"):
            arm_named(wrong)


def test_caps_that_hold_nobody_are_not_swept() -> None:
    swept = arms_named(["direct", "cap"], fit=16, sessions=16)
    assert all((arm.limit or 0) < 16 for arm in swept) and len(swept) > 2
    assert arm_named("cap-99") in arms_named(["cap-99"], 16, 16)  # asked for by name


def test_gateway_command() -> None:
    command = gateway_command(arm_named("cap-16"), "http://127.0.0.1:1", 7)[1:]
    assert " ".join(command) == (
        "-m tutti.tasks.serving.gateway --engine http://127.0.0.1:1 "
        "--policy cap --limit 16 --port 7"
    )
    assert "--limit" not in gateway_command(arm_named("adaptive"), "http://127.0.0.1:1", 7)


def test_order_is_shuffled_by_the_seed() -> None:
    orders = [[a.name for a in arms_of_block(GROUP, SMALL, 0, seed, {})] for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])


def test_arms_take_part_in_their_blocks_and_caps_race() -> None:
    caps = {f"cap-{limit}": [float(limit)] for limit in (8, 12, 14, 16)}
    first = {arm.name for arm in arms_of_block(GROUP, SMALL, 0, 1, caps)}
    later = {arm.name for arm in arms_of_block(GROUP, SMALL, SWEEP_BLOCKS, 1, caps)}
    assert {"vllm-router", "cap-8", "direct"} <= first
    assert later == {"direct", "cap-14", "cap-16"} and CAPS_KEPT == 2
    unknown = {arm.name for arm in arms_of_block(GROUP, SMALL, SWEEP_BLOCKS, 1, {})}
    assert unknown == {"direct", "cap-16"}  # for the estimate of the time that is left


def test_caps_asked_for_by_name_do_not_race() -> None:
    group = replace(GROUP, wanted=(("cap-8", 12), ("cap-16", 12)))
    caps = {"cap-8": [1.0], "cap-12": [3.0], "cap-16": [2.0]}
    assert {a.name for a in arms_of_block(group, SMALL, 9, 1, caps)} == {"cap-8", "cap-16"}


def test_sessions_and_programs() -> None:
    assert (GROUP.sessions(SMALL), GROUP.programs(SMALL)) == (48, 48)
    assert replace(GROUP, passes=2).programs(SMALL) == 96
    assert replace(GROUP, load=0.5).programs(SMALL) == SMALL.least_programs


def test_plan() -> None:
    assert make_plan([], [], [], None, None, None) == DEFAULT_PLAN
    assert max(group.blocks for group in DEFAULT_PLAN) == 12
    asked = make_plan(["mid"], ["append", "heavy"], [2.0, 3.0], "direct,cap-8:1", 4, None)
    assert [group.name for group in asked] == [
        f"mid_{load}x_{shape}" for shape in ("append", "heavy") for load in (2, 3)
    ]
    assert asked[0].wanted == (("direct", 4), ("cap-8", 1))
    assert read_arms("direct:9", 3) == (("direct", 3),)
    for group in DEFAULT_PLAN:
        assert all(arms_named([name], 16, 48) for name, _ in group.wanted)


def test_spec_is_the_work(tmp_path: Path) -> None:
    spec = spec_of(GROUP, SMALL, 0, arm_named("direct"), 1)
    assert spec.key == spec_of(GROUP, SMALL, 0, arm_named("direct"), 1).key
    assert spec.key != spec_of(GROUP, with_pauses(SMALL, 1.0), 0, arm_named("direct"), 1).key
    assert spec.work_seed == spec_of(GROUP, SMALL, 0, arm_named("cap-8"), 1).work_seed


def test_records_come_back_but_for_one_cut_in_two(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.add(record("direct", 0, 100.0))
    with (tmp_path / FILE).open("ab") as out:
        out.write(b'{"spec": {"setup"')
    again = Records(tmp_path)
    again.add(record("cap-16", 0, 150.0))
    again.add(record("cap-16", 0, 150.0, replace(GROUP, passes=2)))
    last = Records(tmp_path)
    assert len(last) == 3 and record("direct", 0, 1.0).spec in last
    cells = last.like(record("adaptive", 5, 1.0).spec)
    assert {arm: list(blocks) for arm, blocks in cells.items()} == {"direct": [0], "cap-16": [0]}
    assert cells["cap-16"][0].measures["steps_per_min"] == 150.0


def test_bootstrap_encloses_the_median() -> None:
    found = bootstrap([1.0, 1.1, 1.2, 1.3, 1.4] * 3, seed=1)
    assert found == bootstrap([1.0, 1.1, 1.2, 1.3, 1.4] * 3, seed=1)
    assert 1.0 < found.lower < found.median < found.upper < 1.4
    assert found.median == pytest.approx(1.2)
    alone = bootstrap([2.0])
    assert alone.lower == alone.median == alone.upper == 2.0


def cells_of(rates: dict[str, float], group: Group = GROUP) -> dict[str, dict[int, Record]]:
    return {arm: {b: record(arm, b, r + b, group) for b in range(4)} for arm, r in rates.items()}


def test_oracle_is_the_best_cap_or_none() -> None:
    assert oracle_of(cells_of({"direct": 10.0, "cap-8": 30.0, "cap-16": 20.0})) == "cap-8"
    assert oracle_of(cells_of({"direct": 40.0, "cap-8": 30.0})) == "direct"
    assert oracle_of(cells_of({"direct": 40.0})) is None


def test_a_cap_that_fell_out_of_the_race_is_no_oracle() -> None:
    cells = cells_of({"direct": 10.0, "cap-8": 30.0, "cap-16": 20.0})
    del cells["cap-8"][3]
    assert oracle_of(cells) == "cap-16"


def test_figures_are_the_contracts() -> None:
    report = Report("scheduling", 4)
    rates = {"direct": 100.0, "cap-16": 150.0, "adaptive": 160.0, "ThunderAgent-0.5s": 120.0}
    rates["ThunderAgent-5s"] = 60.0
    light = replace(GROUP, load=0.5)
    found = [(GROUP, cells_of(rates)), (light, cells_of({"direct": 99.0, "adaptive": 98.0}, light))]
    enter_figures(report, found, seed=1)
    result = report.result()
    figures = result["figures"]
    assert figures["small_3x_append_cap_16_steps_per_min"] == 151.5
    assert figures["small_3x_append_oracle_steps_per_min"] == 151.5
    assert figures["adaptive_vs_oracle_min_ratio"] == pytest.approx(163 / 153)
    assert figures["adaptive_vs_direct_3x_ratio"] == pytest.approx(163 / 103)
    assert figures["adaptive_vs_direct_min_ratio"] == pytest.approx(98 / 99)
    assert figures["adaptive_vs_thunderagent_3x_ratio"] == pytest.approx(163 / 123)
    assert figures["adaptive_p95_vs_direct_max_ratio"] == 1.0
    assert "simulator_error_ratio" not in figures
    assert result["peers"]["ThunderAgent-5s"] == {"small_3x_append_steps_per_min": 61.5}
    json.dumps(result)


def test_a_simulator_that_is_plugged_in_is_judged() -> None:
    report = Report("scheduling", 4)
    found = [(GROUP, cells_of({"direct": 100.0, "adaptive": 160.0}))]
    enter_figures(report, found, 1, lambda spec, _: 90.0 if spec.arm == "direct" else None)
    assert report.result()["figures"]["simulator_error_ratio"] == pytest.approx(1 - 90 / 103)


def test_command_line(tmp_path: Path) -> None:
    given = parse(["--setup", "small,mid", "--load", "0.5,3", "--shape", "append,heavy"])
    assert given.setups == ["small", "mid"] and given.loads == [0.5, 3.0]
    assert given.shapes == ["append", "heavy"] and given.seed == 1


@pytest.mark.parametrize(
    "words", ["--setup huge", "--shape odd", "--load much", "--arms best", "--resume", "--out {}"]
)
def test_wrong_command_lines_exit_with_2(words: str, tmp_path: Path) -> None:
    (tmp_path / FILE).touch()
    with pytest.raises(SystemExit) as exit_:
        parse(words.format(tmp_path).split())
    assert exit_.value.code == 2


def test_a_peer_without_its_checkout_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(THUNDERAGENT, raising=False)
    with pytest.raises(PeerMissing, match=THUNDERAGENT):
        Peers(tmp_path).thunderagent("http://127.0.0.1:1", 7, 0.5)


def test_a_bench_that_is_done_starts_no_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    group = Group("small", "append", 3.0, 1, (("direct", 1), ("adaptive", 1)))
    records = Records(tmp_path / "out")
    for arm, rate in (("direct", 100.0), ("adaptive", 150.0)):
        records.add(record(arm, 0, rate, group))
    words = "--load 3 --blocks 1 --arms direct,adaptive --resume --out"
    main([*words.split(), str(tmp_path / "out")])
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["bench"] == "scheduling" and last["repeats"] == 1
    assert last["figures"]["adaptive_vs_direct_min_ratio"] == 1.5
