"""When a training must have ended: the wall-time limit of its batch job.

In: SLURM_JOB_END_TIME, which Slurm sets, and the job's `wall_time_minutes`. Out: a time before the
limit at which a training saves its state and ends as incomplete, so that it is submitted
again and goes on.
"""

import os
import time

from tutti.errors import UsageError

VARIABLE = "SLURM_JOB_END_TIME"
"""Seconds since the epoch."""
RESERVE_S, RESERVE_SHARE = 180.0, 0.1
"""Time kept, of that which is left at the start, for the end: weights are written, processes end,
and Slurm counts in minutes. Slurm's signal, the second line of defence in deployments/slurm, comes
60 s before the limit, or up to 45 s sooner."""
BEGAN_AT = time.time()
"""When this process began, as far as `wall_time_minutes` is concerned."""


def stop_at(minutes: float | None) -> float | None:
    """When no more steps may begin, in seconds since the epoch; None without a limit.

    Raises UsageError for a SLURM_JOB_END_TIME that is no time.
    """
    ends = [] if minutes is None else [BEGAN_AT + minutes * 60]
    if given := os.environ.get(VARIABLE):
        try:
            ends.append(float(given))
        except ValueError:
            raise UsageError(f"{VARIABLE}={given!r} is not a time in seconds") from None
    if not ends:
        return None
    end = min(ends)
    return end - min(RESERVE_S, max(0.0, end - BEGAN_AT) * RESERVE_SHARE)
