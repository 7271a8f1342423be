"""Tests of the sandbox's bench: it prints the figures of the contract and counts escapes."""

import json

import pytest

from bench import sandbox
from bench.report import Report
from tests.sandbox.hostile import GROUPS
from tests.sandbox.hostile.judge import Verdict
from tutti.tasks.sandbox import SandboxResult
from tutti.tasks.sandbox.walls import strongest_level


@pytest.mark.slow
def test_it_prints_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    if strongest_level() == "limits":
        pytest.skip("no walls work on this machine, only the fence")
    sandbox.main(["--small", "--repeats", "2"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    figures = found["figures"]
    assert (found["bench"], found["repeats"]) == ("sandbox", 2)
    assert figures["contained"] == figures["hostile"] == len(GROUPS["others"])
    assert figures["start_p50_ms"] > 0 and figures["session_cell_p50_ms"] > 0
    assert found["peers"]["no_walls"]["call_p50_ms"] > 0


def test_one_that_gets_out_is_not_counted_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, *_ = GROUPS["others"]
    result = SandboxResult("", "ok", 0.1)
    verdicts = [Verdict(first, [], result), Verdict(second, ["canary: it is gone"], result)]
    monkeypatch.setattr(sandbox, "judge_at", lambda level, cases: verdicts)
    report = Report("sandbox", 1)
    sandbox.measure_containment(report, "bubblewrap", ["others"])
    assert report.result()["figures"] == {"hostile": 2, "contained": 1}
    assert f"{second.name}: canary: it is gone" in report.table()
