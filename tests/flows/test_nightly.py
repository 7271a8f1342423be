"""Tests of the flow `nightly` as a plain function, with a real gateway and a scripted engine."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import BaseTestServer, TestServer
from prefect.context import FlowRunContext

from tests.serving.engine_double import EngineDouble, completion, is_first_call
from tests.serving.weights.checkpoints import make_checkpoint
from tutti import storage
from tutti.flows.nightly import nightly
from tutti.tasks.nights import notify as night_told
from tutti.tasks.nights.record import Record
from tutti.tasks.nights.spec import Night
from tutti.tasks.platform.progress import StageLog
from tutti.tasks.scoring.statistics import Word
from tutti.tasks.serving import RegistryError
from tutti.tasks.sweeps import SuiteError

ROWS = [
    {"question": f"What is {i} plus {i}?", "answer": f"{i} + {i} = {2 * i}\n#### {2 * i}"}
    for i in range(70)
]
SUITE: dict[str, Any] = {"benchmark": "gsm8k", "policies": ["passthrough"], "concurrency": [8]}
SUITE |= {"limits": {"max_turns": 1}}
NIGHT = {"schedule": "0 2 * * *", "stages": {"full": {"suite": SUITE}}}


class Desk:
    """A night file, a registry, an engine that can be set to answer wrongly, and a webhook."""

    def __init__(self, folder: Path, engine: BaseTestServer, hook: BaseTestServer) -> None:
        self.folder, self.wrong = folder, False
        self.asked = 0
        self.told: list[dict[str, Any]] = []
        self.published: list[list[str]] = []
        """Sweeps of each report; in place of the reports, which take longer than the nights."""
        self.models = folder / "models.yaml"
        self.hook_url = str(hook.make_url("/secret-path"))
        self.enter_model(endpoint=str(engine.make_url("/v1")), provider="openai", api_key_env=None)
        (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))

    def enter_model(self, **entry: Any) -> None:
        """Write the registry's only model."""
        models = {"pocket": {"served_name": "pocket", "context_tokens": 4096} | entry}
        self.models.write_text(yaml.safe_dump({"models": models}))

    async def answer(self, _: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        """Return twice the number in the question, or one more if set to answer wrongly."""
        if is_first_call(body):
            return web.json_response(completion("ready"))
        self.asked += 1
        number = int(body["messages"][0]["content"].split()[2])
        return web.json_response(completion(f"So it is\n#### {2 * number + self.wrong}"))

    async def hear(self, request: web.Request) -> web.Response:
        """Receive a webhook request."""
        self.told.append(await request.json())
        return web.json_response({})

    async def night(self, day: int, **change: Any) -> dict[str, Any]:
        """Run the night of that day of November."""
        content = yaml.safe_load(yaml.safe_dump(NIGHT | change))
        for stage in content["stages"].values():
            stage["suite"]["data"] = {"source": str(self.folder)}
        file = self.folder / "night.yaml"
        file.write_text(yaml.safe_dump(content))
        found: dict[str, Any] = await nightly.fn(file, self.models, date(2026, 11, day))
        return found


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    """Yield a desk in a new store."""
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)
    monkeypatch.delenv("TUTTI_WEBHOOK_URL", raising=False)
    double, hooks = EngineDouble(), web.Application()
    made: list[Desk] = []

    async def hear(request: web.Request) -> web.Response:
        return await made[0].hear(request)

    double.reply = lambda request, body: made[0].answer(request, body)
    hooks.router.add_post("/secret-path", hear)
    async with TestServer(double.application()) as engine, TestServer(hooks) as hook:
        made.append(Desk(tmp_path, engine, hook))

        async def publish(sweeps: list[str], *_: Any) -> None:
            made[0].published.append(sweeps)

        monkeypatch.setattr("tutti.flows.nightly.publish_report", publish)
        yield made[0]


@pytest.mark.slow
async def test_nights_are_measured_judged_and_told(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first, an equal and a worse night are compared with the last good one; the webhook is
    called for the worse one only, its address is in no file, and a rerun of the same night makes no
    calls."""
    monkeypatch.setenv("TUTTI_WEBHOOK_URL", desk.hook_url)
    first = await desk.night(1)
    assert (first["verdict"], first["baseline"]) == ("inconclusive", None)
    assert desk.asked == len(ROWS) and first["accepted"]
    second = await desk.night(2)
    assert (second["verdict"], second["baseline"]) == ("same", "nightly-2026-11-01")
    desk.wrong = True
    third = await desk.night(3)
    assert (third["verdict"], third["baseline"]) == ("worse", "nightly-2026-11-02")
    asked = desk.asked
    again = await desk.night(3)
    assert desk.published[-1] == [third["stages"][0]["sweep_id"]]
    assert desk.asked == asked and again["verdict"] == "worse"
    assert [told["night"] for told in desk.told] == ["nightly-2026-11-03"] * 2
    assert desk.told[0]["text"].startswith(
        "nightly-2026-11-03: worse: full: score 100.0 % -> 0.0 % (n = "
    )
    (gate,) = third["stages"][0]["gates"]
    assert (gate["n"], gate["value"], gate["status"]) == (len(ROWS), -1.0, "failed")
    rows = storage.query("select metric, verdict, n, p from verdicts order by created_at, metric")
    assert [(row["metric"], row["verdict"]) for row in rows if row["metric"] == "night"] == [
        ("night", "inconclusive"), ("night", "same"), ("night", "worse"),
    ]  # fmt: skip
    assert [row["n"] for row in rows if row["metric"] == "score"][-1] == len(ROWS)
    for file in (desk.folder / "home").rglob("*"):
        assert not file.is_file() or b"secret-path" not in file.read_bytes(), file


@pytest.mark.slow
async def test_an_engine_that_does_not_start_is_told_and_kept(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The night is inconclusive with the reason; when the engine is back, the same night
    continues."""
    await desk.night(1)
    good = desk.models.read_text()
    monkeypatch.setenv("TUTTI_MODELS_PYTHON", str(desk.folder / "no-python"))
    weights = make_checkpoint(desk.folder / "weights")
    desk.enter_model(provider="vllm", checkpoint=str(weights), engine={"kv_blocks": 8})
    found = await desk.night(2)
    assert (found["verdict"], found["accepted"], found["whole"]) == ("inconclusive", None, False)
    assert "ModelsEnvironmentMissing" in found["reason"]
    (row,) = storage.query("select verdict, reason from verdicts where reason like '%-02: %'")
    assert row["verdict"] == "inconclusive" and "ModelsEnvironmentMissing" in row["reason"]
    desk.models.write_text(good)
    found = await desk.night(2)
    assert found["verdict"] == "same" and found["whole"]


async def test_a_wrong_registry_is_an_error(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry is reported as an error to fix, without a verdict, and a notification is
    sent."""
    monkeypatch.setenv("TUTTI_WEBHOOK_URL", desk.hook_url)
    with pytest.raises(RegistryError):
        await desk.night(1, stages={"full": {"suite": SUITE | {"model": "nobody"}}})
    with pytest.raises(SuiteError):
        await desk.night(2, stages={"full": {"suite": SUITE | {"concurrency": [0]}}})
    assert [(told["night"], told["verdict"]) for told in desk.told] == [
        ("nightly-2026-11-01", "inconclusive"), ("night-2026-11-02", "inconclusive"),
    ]  # fmt: skip
    assert "no verdict: RegistryError: " in desk.told[0]["reason"]
    assert "no verdict: SuiteError: " in desk.told[1]["reason"]


async def test_a_night_that_cannot_measure_notifies(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notification has the reason."""
    monkeypatch.setenv("TUTTI_WEBHOOK_URL", desk.hook_url)
    found = await desk.night(1, budget={"minutes": 1e-6})
    (told,) = desk.told
    assert (found["verdict"], told["verdict"]) == ("inconclusive", "inconclusive")
    assert told["reason"] == "full: not measured: the budget of 1e-06 minutes is spent"


async def test_a_report_that_cannot_be_written_is_told_with_the_verdict(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message reports both, also for a night that would not have sent one. It used to claim
    that there was no verdict, and a failure to end the run sent a second message."""

    async def full(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setenv("TUTTI_WEBHOOK_URL", desk.hook_url)
    monkeypatch.setattr("tutti.flows.nightly.publish_report", full)
    with pytest.raises(OSError, match="disk full"):
        await desk.night(1, stages={"full": {"suite": SUITE | {"limit": 3}}})
    (told,) = desk.told
    assert told["accepted"], "it is no less a baseline"
    (kept,) = storage.query("select reason from verdicts where metric = 'night'")
    said = f"{told['night']}: {told['reason']}"
    assert said == f"{kept['reason']}; no report: OSError: disk full"


async def test_an_error_after_a_nights_message_sends_no_other(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An example is a catalog that is unreachable when the run is to be ended."""

    def gone(*_: Any) -> None:
        raise OSError("gone")

    monkeypatch.setenv("TUTTI_WEBHOOK_URL", desk.hook_url)
    monkeypatch.setattr("tutti.flows.nightly.night_dict", gone)
    with pytest.raises(OSError, match="gone"):
        await desk.night(1, budget={"minutes": 1e-6})
    assert [told["reason"].partition(":")[0] for told in desk.told] == ["full"]


@pytest.mark.slow
async def test_a_spent_budget_ends_the_night_and_the_same_night_goes_on(desk: Desk) -> None:
    """Measured results are stored and not measured again."""
    stages = {name: {"suite": SUITE} for name in ("guard", "full")}
    found = await desk.night(1, stages=stages, budget={"minutes": 1e-6})
    assert (found["verdict"], found["whole"]) == ("inconclusive", False)
    assert "minutes is spent" in found["reason"] and desk.asked == 0
    found = await desk.night(1, stages=stages)
    assert found["whole"] and found["accepted"] and desk.asked == 2 * len(ROWS)


RECORD = Record(Night("nightly", date(2026, 11, 21)), "worse", "full: less", None, True)


@pytest.mark.parametrize(
    ("accepted", "kind"), [("all gates passed", "COMPLETED"), (None, "FAILED")]
)
def test_a_flow_run_ends_in_a_state_that_the_ui_shows(accepted: str | None, kind: str) -> None:
    """The state is Completed if the night was accepted and Failed otherwise. It has Prefect's own
    name, because Prefect's lists omit runs whose state has another name."""
    told = {"night": "n", "verdict": "inconclusive", "reason": "no engine", "accepted": accepted}
    state = night_told.ended(told)
    assert (state.type.value, state.name) == (kind, kind.capitalize())
    assert state.message == "n: inconclusive: no engine"


def test_the_scheduled_time_of_a_late_run_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduled time is not the time at which the run starts."""
    planned = datetime(2026, 11, 20, 2, tzinfo=UTC)
    run = SimpleNamespace(flow_run=SimpleNamespace(expected_start_time=planned))
    assert abs((night_told.planned_for() - datetime.now(UTC)).total_seconds()) < 5
    monkeypatch.setattr(FlowRunContext, "get", classmethod(lambda _: run))
    assert night_told.planned_for() == planned


async def test_a_run_leaves_an_artifact_and_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event is named by the verdict, and its resource is the sweep."""
    left: list[Any] = []

    async def artifact(*given: Any) -> None:
        left.append(given)

    def event(*given: Any, **more: Any) -> None:
        left.append((*given, more))

    monkeypatch.setattr(night_told, "in_flow_run", lambda: True)
    monkeypatch.setattr("prefect.artifacts.acreate_markdown_artifact", artifact)
    monkeypatch.setattr("prefect.events.emit_event", event)
    monkeypatch.delenv("TUTTI_WEBHOOK_URL", raising=False)
    record = Record(RECORD.night, "worse", "full: less", sweeps={"full": "sweep:1"})
    await night_told.tell(record, [], [], StageLog())
    (page, key, _), (name, resource, more) = left
    assert key == "night" and page.startswith("# nightly-2026-11-21: worse")
    assert name == "tutti.night.worse" and resource["prefect.resource.id"] == "sweep:1"
    assert more["payload"]["reason"] == "full: less"
    assert resource["tutti.night.alerts"] == "yes"


@pytest.mark.parametrize(
    ("verdict", "accepted", "alerts"),
    [
        ("better", "all gates passed", False),
        ("same", "all gates passed", False),
        ("inconclusive", "the first whole night", False),
        ("inconclusive", None, True),
        ("worse", None, True),
        ("worse", "by hand: a new set", True),
    ],
)
async def test_whoever_must_look_is_notified(
    verdict: Word,
    accepted: str | None,
    alerts: bool,
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A notification is sent for a worse night and for one without a verdict for lack of data."""
    monkeypatch.setenv("TUTTI_WEBHOOK_URL", desk.hook_url)
    await night_told.tell(Record(RECORD.night, verdict, "why", accepted), [], [], StageLog())
    assert [told["verdict"] for told in desk.told] == [verdict] * alerts
