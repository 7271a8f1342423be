"""The faults between a question and a usable answer. Each is a row of the teacher's store."""

from dataclasses import dataclass
from enum import StrEnum

from tutti.errors import ExitCode, TuttiError


class FaultKind(StrEnum):
    """The kinds of fault."""

    BAD_JSON = "bad_json"
    HALF_JSON = "half_json"
    """Cut off at the token limit (finish reason `length`)."""
    REFUSAL = "refusal"
    SCHEMA = "schema"
    """JSON that does not fit the model."""
    CHECK = "check"
    """It fits, but the check of the product rejects it."""
    TOO_FEW = "too_few"
    TOO_MANY = "too_many"
    TIMEOUT = "timeout"
    RATE_LIMIT = "rate_limit"
    SERVER_ERROR = "server_error"
    CONNECTION = "connection"
    REQUEST = "request"
    """The endpoint does not accept the request: 4xx."""
    UNSUPPORTED = "unsupported"
    """The endpoint does not know the form in which the answer was asked for."""
    BATCH_ROW_FAILED = "batch_row_failed"
    BATCH_EXPIRED = "batch_expired"
    """The batch ended without an answer to the row."""
    BATCH_UNAVAILABLE = "batch_unavailable"
    QUOTE = "quote"
    """A quotation that is not in the passage."""


CONTENT = frozenset(
    (
        FaultKind.BAD_JSON,
        FaultKind.HALF_JSON,
        FaultKind.REFUSAL,
        FaultKind.SCHEMA,
        FaultKind.CHECK,
        FaultKind.TOO_FEW,
        FaultKind.QUOTE,
    )
)
"""Faults of an answer, which the same question meets again; the others are the endpoint's."""


@dataclass(frozen=True)
class Fault:
    """A fault of one question."""

    kind: FaultKind
    detail: str


class TeacherFailed(TuttiError, RuntimeError):
    """A question without a usable answer."""

    def __init__(self, message: str, kind: FaultKind = FaultKind.CHECK) -> None:
        super().__init__(message)
        self.kind = kind

    @staticmethod
    def by(question: str, fault: Fault) -> "TeacherFailed":
        """Return the error of a question whose last fault could not be overcome."""
        kind = TeacherFailed if fault.kind in CONTENT else TeacherLost
        return kind(f"teacher: {question}: {fault.kind}: {fault.detail}", fault.kind)

    @property
    def is_final(self) -> bool:
        """Whether a repeated question would have the same result: the fault is in the answer."""
        return self.kind in CONTENT


class TeacherLost(TeacherFailed):
    """A question without an answer because the endpoint failed. The same command asks it again."""

    exit_code = ExitCode.INCOMPLETE


class BudgetSpent(TuttiError, RuntimeError):
    """The next call could exceed the budget, so it was not sent."""

    exit_code = ExitCode.INCOMPLETE
