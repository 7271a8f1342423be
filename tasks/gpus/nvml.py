"""The cards that NVIDIA's driver lists.

Needs the package nvidia-ml-py (``pip install 'tutti[gpu]'``) and the driver. A machine without the
package or the driver has no cards. A driver that is there and does not answer is an error: a job
would run on the CPU in silence.
"""

from importlib import import_module
from typing import Any

from tutti.tasks.gpus.errors import GpuError

Card = dict[str, Any]
"""Fields of a `Gpu`."""
MIB = 2**20


def cards_of_nvml(nvml: Any = None) -> tuple[list[Card], str]:
    """This machine's cards in PCI order, or none and why. `nvml` is the module pynvml or a double.

    Raises GpuError if the driver does not answer, or a card is divided (MIG).
    """
    try:
        nvml = nvml if nvml is not None else import_module("pynvml")
    except ImportError:
        return [], "the package nvidia-ml-py is not installed (pip install 'tutti[gpu]')"
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        if getattr(error, "value", None) == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            return [], "NVML: no NVIDIA driver"
        raise GpuError(_broken(error)) from error
    try:
        cards = [_card(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError as error:
        raise GpuError(_broken(error)) from error
    finally:
        nvml.nvmlShutdown()
    return cards, "" if cards else "NVML lists no GPU"


def processes_of_nvml(uuid: str, nvml: Any = None) -> list[int]:
    """The pids that compute on a card, by the driver; none where it cannot be asked.

    In a container they are the host's. Programs that only draw are not among them.
    """
    try:
        nvml = nvml if nvml is not None else import_module("pynvml")
    except ImportError:
        return []
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:  # who lists the cards has said what is wrong with it
        return []
    try:
        gpu = nvml.nvmlDeviceGetHandleByUUID(uuid)
        return sorted({each.pid for each in nvml.nvmlDeviceGetComputeRunningProcesses(gpu)})
    except nvml.NVMLError:  # a card of a list that this driver does not have
        return []
    finally:
        nvml.nvmlShutdown()


def _card(nvml: Any, index: int) -> Card:
    gpu = nvml.nvmlDeviceGetHandleByIndex(index)
    try:
        divided = nvml.nvmlDeviceGetMigMode(gpu)[0]
    except nvml.NVMLError:  # a card that cannot be divided has no such mode
        divided = 0
    if divided:
        raise GpuError(
            f"gpu {index}: MIG is on, and tutti leases whole cards; turn it off, or list the "
            "other cards in gpus.yaml"
        )
    return {
        "index": index,
        "uuid": _text(nvml.nvmlDeviceGetUUID(gpu)),
        "name": _text(nvml.nvmlDeviceGetName(gpu)),
        "memory_mb": nvml.nvmlDeviceGetMemoryInfo(gpu).total // MIB,
    }


def _text(said: str | bytes) -> str:
    return said.decode() if isinstance(said, bytes) else said  # older versions give bytes


def _broken(error: Exception) -> str:
    return (
        f"NVML: {error}; `nvidia-smi` says more. To run without it, name a list of cards in "
        "TUTTI_GPUS (docs/gpus.md)"
    )
