"""GPUs: the known ones, and the run that holds each, at most one holder per GPU."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.platform.gpus.errors import GpuError as GpuError
    from tutti.tasks.platform.gpus.errors import GpuLost as GpuLost
    from tutti.tasks.platform.gpus.errors import GpusBusy as GpusBusy
    from tutti.tasks.platform.gpus.errors import NoSuchGpu as NoSuchGpu
    from tutti.tasks.platform.gpus.inventory import DEFAULT_CLAIM as DEFAULT_CLAIM
    from tutti.tasks.platform.gpus.inventory import Gpu as Gpu
    from tutti.tasks.platform.gpus.inventory import GpuClaim as GpuClaim
    from tutti.tasks.platform.gpus.inventory import Inventory as Inventory
    from tutti.tasks.platform.gpus.inventory import candidates as candidates
    from tutti.tasks.platform.gpus.inventory import read_inventory as read_inventory
    from tutti.tasks.platform.gpus.inventory import require_gpus as require_gpus
    from tutti.tasks.platform.gpus.inventory import require_job_gpus as require_job_gpus
    from tutti.tasks.platform.gpus.leases import GpuLease as GpuLease
    from tutti.tasks.platform.gpus.leases import lease_gpus as lease_gpus
    from tutti.tasks.platform.gpus.leases import lease_gpus_async as lease_gpus_async
    from tutti.tasks.platform.gpus.leases import list_gpus as list_gpus

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
