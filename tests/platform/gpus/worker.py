"""A process that takes GPUs, as the tests of `test_races` start it.

``python -m tests.platform.gpus.worker STORE TURNS LEASE_S MOST RECORD`` takes 1 to MOST GPUs, TURNS
times (0: once, with a child on the GPUs, until it is killed). It writes a line ``uuid entered
left`` per lease, by the clock that all processes of a machine share.
"""

import random
import sys
import time
from pathlib import Path

from tutti.storage import Home, open_catalog
from tutti.tasks.platform.gpus import GpuClaim, GpuLost, lease_gpus
from tutti.tasks.serving.processes import Child


def main() -> None:
    store, turns, lease_s, most, record = sys.argv[1:]
    with open_catalog(Home(Path(store))) as catalog, open(record, "a", buffering=1) as out:
        for _ in range(int(turns)):
            wanted = random.randint(1, int(most))
            with lease_gpus(catalog, GpuClaim(wanted, "run:w", "", 30, float(lease_s))) as lease:
                entered = time.monotonic()
                time.sleep(random.uniform(0.001, 0.03))
                left = time.monotonic()
            for gpu in lease.gpus:
                out.write(f"{gpu.uuid} {entered} {left}\n")
        if int(turns):
            return
        claim = GpuClaim(int(most), "run:w", "holding", 30, float(lease_s))
        with lease_gpus(catalog, claim) as lease:
            with Child("user", ["sleep", "1000"], {}, catalog, lease) as child:
                try:
                    while child.poll() is None:
                        time.sleep(0.02)
                    out.write("ended\n")
                except GpuLost as error:
                    out.write(f"lost {error}\n")


if __name__ == "__main__":
    main()
