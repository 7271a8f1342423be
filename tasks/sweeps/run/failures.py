"""What a failed attempt means: whether another can help, and when the whole cell is given up.

In: ended attempts of one cell. Out: whether to make another attempt at the sample; `EngineFailed`
once the first attempts have all failed at the same thing.
"""

from tutti.storage import ErrorType
from tutti.tasks.agents import Trajectory
from tutti.tasks.serving import EngineFailed

REFUSALS = frozenset((401, 403, 404))
"""HTTP statuses of a wrong key, a missing permission, an unknown model."""
REJECTIONS = frozenset((400, 413, 422))
"""HTTP statuses of a request that the endpoint will reject again, however often it is sent."""
ALIKE_AT_MOST = 8
"""So many first attempts may fail at the same thing before the cell is given up."""


class Failures:
    """The failures of one cell."""

    def __init__(self, answered: bool) -> None:
        """`answered`: whether an earlier run of the cell has an attempt that ended by itself."""
        self.answered = answered
        self._kind, self._alike = "", 0

    def settle(self, done: Trajectory) -> None:
        """Decide the status of an ended attempt, before it is stored.

        A rejected request is the model's own outcome once the endpoint has answered another one;
        until then it is the set-up that is wrong, and the attempt is void.
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
        if not self.answered:
            self._count(done)
        return done.http_status in REFUSALS | REJECTIONS

    def _count(self, done: Trajectory) -> None:
        kind = done.error_type or ""
        self._alike = self._alike + 1 if kind == self._kind else 1
        self._kind = kind
        if self._alike >= ALIKE_AT_MOST:
            is_tool = kind == ErrorType.TOOL_UNAVAILABLE
            fix = "the tool's server" if is_tool else "the model's entry, its key or its server"
            raise EngineFailed(
                f"the first {self._alike} attempts all failed ({kind}), the last with: "
                f"{done.error_message}\n"
                f"Correct {fix}, then run the same command again: finished samples are kept."
            )
