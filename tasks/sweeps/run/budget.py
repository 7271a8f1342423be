"""The time and money that a run may spend; checked twice a second and after every attempt.

In: a suite's `budget`, and the costs of attempts as they end, with their judge and user. Out: the
reason to start no more samples. Running attempts finish, so a budget is exceeded by at most what is
in flight. An unknown cost of a priced model ends a run with a limit in USD; models without a price
do not count (`unpriced_line` names them).
"""

import time

from tutti.storage import Cost
from tutti.storage.catalog import CellReason
from tutti.tasks.sweeps.plan import EndReason
from tutti.tasks.sweeps.spec import Budget


class BudgetTracker:
    """The spending of one run; its time begins with this object."""

    def __init__(self, budget: Budget, whole: "BudgetTracker | None" = None) -> None:
        """`whole`: the spending that includes this one, such as a night's for its stage."""
        self.budget, self._whole = budget, whole
        self._began = time.monotonic()
        self.cost = Cost()
        self._uncounted = 0

    @property
    def limits_usd(self) -> bool:
        return self.budget.usd is not None or (self._whole is not None and self._whole.limits_usd)

    def add(self, cost: Cost, is_priced: bool = True) -> None:
        """Add the cost of an attempt. `is_priced`: whether the prices of its models are known."""
        self.cost.include(cost)
        self._uncounted += cost.unknown if is_priced else 0
        if self._whole is not None:
            self._whole.add(cost, is_priced)

    def spent(self) -> EndReason | None:
        """Return a reason once the budget is spent or cannot be counted."""
        minutes, usd = self.budget.minutes, self.budget.usd
        taken = (time.monotonic() - self._began) / 60
        if minutes is not None and taken >= minutes:
            text = f"the budget of {minutes:g} minutes is spent"
            return EndReason(CellReason.BUDGET_MINUTES, text, minutes)
        if usd is not None and (self._uncounted or self.cost.known_usd >= usd):
            text = f"the budget of {usd:g} USD is spent ({self.cost:.2f})"
            if self.cost.known_usd < usd:
                text = (
                    f"the budget of {usd:g} USD cannot be counted ({self.cost:.2f}): the cost of "
                    f"{self._uncounted} calls is unknown, as their endpoint reported no usage"
                )
            return EndReason(CellReason.BUDGET_USD, text, usd)
        return None if self._whole is None else self._whole.spent()
