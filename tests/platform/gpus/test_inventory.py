"""Tests of the GPU inventory: by file, by NVML, and restricted by CUDA_VISIBLE_DEVICES."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.platform.gpus.conftest import MakeGpus
from tutti import storage
from tutti.tasks.platform.gpus import GpuError, read_inventory
from tutti.tasks.platform.gpus.inventory import gpus_of_nvml, processes_of_nvml


class FakeNvml:
    """Fake of the module pynvml on a machine with `n` GPUs."""

    NVML_ERROR_LIBRARY_NOT_FOUND = 12

    class NVMLError(Exception):
        def __init__(self, said: str, value: int = 999) -> None:
            super().__init__(said)
            self.value = value

    def __init__(self, n: int = 2, fails: Exception | None = None, mig: int = 0) -> None:
        self.n, self.fails, self.mig, self.open = n, fails, mig, 0
        self.pids: list[int] = []

    def nvmlInit(self) -> None:
        if self.fails:
            raise self.fails
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return self.n

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        """Return the handle of one of its GPUs."""
        index = int(uuid.removeprefix("GPU-"))
        if index >= self.n:
            raise self.NVMLError("Not Found", 6)
        return index

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: int) -> list[SimpleNamespace]:
        """Return processes on GPU 0, with one entry per context of a process."""
        return [SimpleNamespace(pid=pid) for pid in self.pids * (gpu == 0)]

    def nvmlDeviceGetMigMode(self, gpu: int) -> list[int]:
        """Return the MIG mode; GPU 0 does not support it."""
        if gpu == 0:
            raise self.NVMLError("Not Supported")
        return [self.mig, self.mig]

    def nvmlDeviceGetUUID(self, gpu: int) -> bytes:
        """Return the uuid as bytes, as older versions do."""
        return f"GPU-{gpu}".encode()

    def nvmlDeviceGetName(self, gpu: int) -> str:
        return "H100"

    def nvmlDeviceGetMemoryInfo(self, gpu: int) -> SimpleNamespace:
        """Return the memory in bytes."""
        return SimpleNamespace(total=80 * 2**30, used=0)


def here(home: storage.Home) -> list[int]:
    return [gpu.index for gpu in read_inventory(home).here]


def test_a_file_lists_the_cards_of_several_hosts(tmp_path: Path, listed: MakeGpus) -> None:
    file = listed(2)
    found = read_inventory(storage.Home(tmp_path))
    assert [gpu.index for gpu in found.here] == [0, 1] and len(found.gpus) == 3
    assert found.source == str(file) and not found.absent
    assert found.here[0].lease_name == "gpu GPU-0000-aa"


def test_the_store_may_have_the_list(
    tmp_path: Path, listed: MakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store's list is used if TUTTI_GPUS names no other."""
    file = listed(1)
    monkeypatch.delenv("TUTTI_GPUS")
    home = storage.Home(tmp_path / "store")
    assert here(home) == []
    home.root.mkdir()
    file.rename(home.root / "gpus.yaml")
    assert here(home) == [0]


@pytest.mark.parametrize(
    ("visible", "left"),
    [
        *(("1", [1]), ("1,0", [0, 1]), ("GPU-2222-aa", [2]), ("GPU-2", [2]), ("", [])),
        *(("0,-1,1", [0]), ("7", []), ("GPU-", [])),
    ],
)
def test_cuda_visible_devices_leaves_what_cuda_would_show(
    tmp_path: Path,
    listed: MakeGpus,
    monkeypatch: pytest.MonkeyPatch,
    visible: str,
    left: list[int],
) -> None:
    """The variable has the forms that Slurm sets; as in CUDA, everything after the first invalid
    name is ignored."""
    listed(3)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert here(storage.Home(tmp_path)) == left
    assert bool(read_inventory(storage.Home(tmp_path)).absent) == (not left)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpus:\n  - {index: -1}\n", r"gpus.yaml: line 2: gpus.0.index: .*\(given: -1\)"),
        ("gpus:\n  - {index: 0, memory: 8}\n", "memory: Extra .*did you mean `gpus.memory_mb`"),
        ("gpus: [{index: 0}, {index: 0}]\n", "index 0 of host .* is listed twice"),
        ("gpus: [{index: 0, uuid: a}, {index: 1, uuid: a}]\n", "uuid a is listed twice"),
        ("gpus: {\n", "gpus.yaml: "),
    ],
)
def test_a_wrong_list_is_refused_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    file = tmp_path / "gpus.yaml"
    file.write_text(text)
    monkeypatch.setenv("TUTTI_GPUS", str(file))
    with pytest.raises(GpuError, match=said):
        read_inventory(storage.Home(tmp_path))
    file.unlink()
    with pytest.raises(GpuError, match=r"TUTTI_GPUS: .*gpus.yaml: no such file"):
        read_inventory(storage.Home(tmp_path))


def test_nvml_gives_what_a_list_would() -> None:
    nvml = FakeNvml()
    found, absent = gpus_of_nvml(nvml)
    assert absent == "" and nvml.open == 0
    assert found[1] == {"index": 1, "uuid": "GPU-1", "name": "H100", "memory_mb": 81920}


def test_without_a_driver_there_are_no_cards() -> None:
    missing = FakeNvml.NVMLError("NVML Shared Library Not Found", 12)
    assert gpus_of_nvml(FakeNvml(fails=missing)) == ([], "NVML: no NVIDIA driver")
    assert gpus_of_nvml(FakeNvml(n=0)) == ([], "NVML lists no GPU")


def test_a_driver_that_does_not_answer_is_an_error() -> None:
    """Otherwise a job would silently run on the CPU."""
    broken = FakeNvml.NVMLError("Driver/library version mismatch", 18)
    with pytest.raises(GpuError, match=r"NVML: Driver/library version mismatch; `nvidia-smi`"):
        gpus_of_nvml(FakeNvml(fails=broken))


def test_a_divided_card_is_refused() -> None:
    nvml = FakeNvml(mig=1)
    with pytest.raises(GpuError, match="gpu 1: MIG is on"):
        gpus_of_nvml(nvml)
    assert nvml.open == 0


def test_the_programs_that_compute_on_a_card() -> None:
    """The driver lists them; a GPU unknown to the driver, or a machine without a driver, has
    none."""
    nvml = FakeNvml()
    nvml.pids = [4711, 99, 4711]
    assert processes_of_nvml("GPU-0", nvml) == [99, 4711]
    assert processes_of_nvml("GPU-1", nvml) == []
    assert processes_of_nvml("GPU-7", nvml) == []
    assert nvml.open == 0
    assert processes_of_nvml("GPU-0", FakeNvml(fails=FakeNvml.NVMLError("no driver"))) == []
