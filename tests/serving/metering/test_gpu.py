"""Tests of GPU rows with a fake of the module pynvml."""

import sys
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from tutti import storage
from tutti.tasks.serving.metering.gpu import GpuSampler

AT = datetime(2026, 11, 21, tzinfo=UTC)


class FakeNvml:
    """Fake with one GPU per number in `busy`; number n has n GB in use and draws 100 n W."""

    class NVMLError(Exception):
        """Error of NVML."""

    def __init__(self, *busy: int, driver: bool = True, power: bool = True) -> None:
        self.busy, self.driver, self.power = busy, driver, power
        self.open = 0

    def nvmlInit(self) -> None:
        if not self.driver:
            raise self.NVMLError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.busy)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUtilizationRates(self, gpu: int) -> SimpleNamespace:
        return SimpleNamespace(gpu=self.busy[gpu], memory=1)

    def nvmlDeviceGetMemoryInfo(self, gpu: int) -> SimpleNamespace:
        return SimpleNamespace(total=80 * 10**9, used=gpu * 10**9)

    def nvmlDeviceGetPowerUsage(self, gpu: int) -> int:
        if not self.power:
            raise self.NVMLError("Not Supported")
        return gpu * 100_000


def test_each_gpu_has_its_rows() -> None:
    """The rows have percent, bytes and watts, under names that identify the GPU."""
    sampler = GpuSampler("engine:1", FakeNvml(97, 40))
    rows = sampler.rows(AT, "c")
    assert sampler.absent == ""
    assert {row["name"]: row["value"] for row in rows} == {
        'nvml:gpu_utilization{gpu="0"}': 97.0,
        'nvml:memory_used_bytes{gpu="0"}': 0.0,
        'nvml:power_watts{gpu="0"}': 0.0,
        'nvml:gpu_utilization{gpu="1"}': 40.0,
        'nvml:memory_used_bytes{gpu="1"}': 1e9,
        'nvml:power_watts{gpu="1"}': 100.0,
    }
    assert {(row["cell_id"], row["engine_id"], row["at"]) for row in rows} == {
        ("c", "engine:1", AT)
    }


def test_what_a_gpu_does_not_say_is_left_out() -> None:
    sampler = GpuSampler("e", FakeNvml(97, power=False))
    names = [row["name"] for row in sampler.rows(AT, "c")]
    assert names == ['nvml:gpu_utilization{gpu="0"}', 'nvml:memory_used_bytes{gpu="0"}']


@pytest.mark.parametrize(
    ("nvml", "reason"),
    [(FakeNvml(97, driver=False), "Driver Not Loaded"), (FakeNvml(), "lists no GPU")],
)
def test_without_a_driver_or_a_gpu_there_are_no_rows_and_a_reason(
    nvml: FakeNvml, reason: str
) -> None:
    sampler = GpuSampler("e", nvml)
    assert reason in sampler.absent
    assert sampler.rows(AT, "c") == []
    sampler.close()
    assert nvml.open == 0


def test_without_the_package_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    sampler = GpuSampler("e")
    assert "nvidia-ml-py" in sampler.absent
    assert sampler.rows(AT, "c") == []
    sampler.close()


def test_the_driver_is_let_go_of_once() -> None:
    nvml = FakeNvml(97)
    sampler = GpuSampler("e", nvml)
    assert nvml.open == 1
    sampler.close()
    sampler.close()
    assert nvml.open == 0
    assert sampler.rows(AT, "c") == []


def test_the_window_summary_knows_them(catalog: storage.Catalog) -> None:
    """gpu_util_mean is the mean over GPUs in percent, as for an imported log."""
    rows = GpuSampler("e", FakeNvml(90, 50)).rows(AT, "c")
    call = {"cell_id": "c", "call_id": "1", "sent_at": AT}
    storage.commit(catalog, {"server_metrics": rows, "calls": [call]})
    sql = "select gpu_util_mean from window_summary('c', 0, 10)"
    assert storage.query(sql, catalog.home) == [{"gpu_util_mean": 70.0}]
