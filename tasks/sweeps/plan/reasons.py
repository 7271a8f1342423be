"""Why a run gives out no more samples of a cell, as codes and as text.

Decisions hang on the code and its value: what ended a cell is compared with what a suite asks for
now (`asked_reasons`). The text is for people.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tutti.storage import catalog as cat
from tutti.storage.catalog import CellReason
from tutti.tasks.sweeps.spec import Suite


@dataclass(frozen=True)
class EndReason:
    """Why no more samples are given out."""

    code: CellReason
    text: str
    value: float | None = None
    """The limit, margin or budget that is meant."""
    reference: str | None = None
    """The policy that an accuracy is decided against."""

    @property
    def ends_cell(self) -> bool:
        """Whether the cell is over, and not only this run of it."""
        return self.code in cat.ENDING_REASONS

    @property
    def columns(self) -> dict[str, Any]:
        """As columns of `cells`."""
        return {
            "reason": self.text,
            "reason_code": str(self.code),
            "reason_value": self.value,
            "reason_reference": self.reference,
        }

    def is_of(self, row: Mapping[str, Any]) -> bool:
        """Whether a row of `cells` has this code, value and reference."""
        if row["reason_code"] != self.code or row["reason_reference"] != self.reference:
            return False
        if self.value is None or row["reason_value"] is None:
            return self.value is row["reason_value"]
        return math.isclose(self.value, row["reason_value"], rel_tol=cat.REASON_PRECISION)


NO_REASON: dict[str, Any] = dict.fromkeys(
    ("reason", "reason_code", "reason_value", "reason_reference")
)
"""The columns of a cell that ended as a matter of course."""


def asked_reasons(suite: Suite) -> dict[CellReason, EndReason]:
    """What ends a cell of `suite` early; a stopping rule adds its finding to the text."""
    found = list[EndReason]()
    rules, max_cell_s = suite.stopping, suite.limits.max_cell_s
    if rules.saturation is not None:
        limit_s = rules.saturation.step_latency_p95
        found.append(EndReason(CellReason.LATENCY_LIMIT, f"p95 limit {limit_s:g} s: ", limit_s))
    if rules.stop_when_decided is not None:
        margin, first = rules.stop_when_decided.margin, suite.first_policy
        text = f"margin {margin:g} to {first}: "
        reference = suite.each_policy[first].full_label  # `cap` may be another one tomorrow
        found.append(EndReason(CellReason.ACCURACY_DECIDED, text, margin, reference))
    if max_cell_s is not None:
        text = f"its {max_cell_s:g} s are over"
        found.append(EndReason(CellReason.TIME_LIMIT, text, max_cell_s))
    return {each.code: each for each in found}
