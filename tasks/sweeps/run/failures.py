"""Failed attempts: whether another attempt can help, and when the whole cell is given up.

In: ended attempts of one cell. Out: whether to make another attempt at the sample; `EngineFailed`
once the first attempts have all failed at the same thing. Attempts that take far longer than the
others of their cell are cut where a batch waits for them: of a training's rollouts, not of a sweep.
"""

import asyncio
import time
from statistics import median

from tutti.storage import ErrorType
from tutti.storage.catalog import CellReason
from tutti.tasks.agents import Trajectory
from tutti.tasks.serving import EngineFailed
from tutti.tasks.sweeps.plan import EndReason, Sample

REFUSALS = frozenset((401, 403, 404))
"""HTTP statuses of a wrong key, a missing permission, an unknown model."""
REJECTIONS = frozenset((400, 413, 422))
"""HTTP statuses of a request that the endpoint will reject again, however often it is sent."""
ALIKE_AT_MOST = 8


class Failures:
    def __init__(self, answered: bool) -> None:
        """`answered`: whether an earlier run of the cell has an attempt that ended normally."""
        self.answered = answered
        self._kind, self._alike = "", 0

    def settle(self, done: Trajectory) -> None:
        """Decide the status of an ended attempt, before it is stored.

        A rejected request is the model's own outcome once the endpoint has answered another one;
        until then the set-up is wrong, and the attempt is void.
        """
        if done.status == "infra_error" and done.http_status in REJECTIONS and self.answered:
            assert done.error_type is not None, "an infra_error has a kind"
            done.fail("model_error", done.error_type, done.error_message or "")

    def is_final(self, done: Trajectory) -> bool:
        """Whether another attempt at the sample would end the same way.

        Raises EngineFailed when `ALIKE_AT_MOST` attempts failed alike and none was answered.
        """
        if done.status != "infra_error":
            self.answered = True
            return True
        kind = done.error_type or ""
        self._alike = self._alike + 1 if kind == self._kind else 1
        self._kind = kind
        if not self.answered and self._alike >= ALIKE_AT_MOST:
            is_tool = kind == ErrorType.TOOL_UNAVAILABLE
            fix = "the tool's server" if is_tool else "the model's entry, its key or its server"
            raise EngineFailed(
                f"the first {self._alike} attempts all failed ({kind}), the last with: "
                f"{done.error_message}\n"
                f"Correct {fix}, then run the same command again: finished samples are kept."
            )
        return done.http_status in REFUSALS | REJECTIONS


SHARE = 0.9
"""Share of a cell's samples that have ended before an attempt counts as late."""
STOP_REASON = "late"


class LateAttempts:
    """The attempts of one cell; one is late after `factor` times the median duration."""

    def __init__(self, factor: float, total: int) -> None:
        self._factor, self._total = factor, total
        self._began: dict[asyncio.Task[None], float] = {}
        self._took: list[float] = []
        self._cut: set[asyncio.Task[None]] = set()
        self.attempt_of: dict[str, str] = {}

    async def make(self, sample: Sample, work: "asyncio.Task[None]") -> bool:
        """Wait for a sample's work; return False if it was cut."""
        self._began[work] = time.monotonic()
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:  # of the session, also while its work is being cut
            if work not in self._cut:
                work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            raise
        finally:
            self._took.append(time.monotonic() - self._began.pop(work))
        if work.cancelled() and work in self._cut:
            return False
        work.result()
        return True

    def cut(self, done: int) -> EndReason | None:
        """Cut the late attempts once `done` of the samples are enough, and return the reason."""
        if done < SHARE * self._total or not self._took:
            return None
        limit_s = self._factor * median(self._took)
        began_before = time.monotonic() - limit_s
        running = {work: at for work, at in self._began.items() if work not in self._cut}
        late = [work for work, at in running.items() if at < began_before]
        if not late:
            return None
        self._cut.update(late)
        for work in late:
            work.cancel()
        text = f"attempts of more than {limit_s:.1f} s were cut, {self._factor:g} times the median"
        return EndReason(CellReason.LATE, text, self._factor)
