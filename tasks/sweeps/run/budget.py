"""What a run may take: time and money; asked twice a second and after every attempt.

In: a suite's `budget`, and what attempts cost as they end, their judge and user included. Out: why
no more is given out, once it is so. What runs then is finished, so a budget is exceeded by at most
what is in flight.
"""

import time

from tutti.storage.catalog import CellReason
from tutti.tasks.sweeps.plan import EndReason
from tutti.tasks.sweeps.spec import Budget


class Spending:
    """One run's; its time begins here."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._began = time.monotonic()
        self.usd = 0.0

    def add(self, usd: float) -> None:
        """An attempt has ended that cost so much."""
        self.usd += usd

    def spent(self) -> EndReason | None:
        """The reason, once the budget is spent."""
        minutes, usd = self.budget.minutes, self.budget.usd
        taken = (time.monotonic() - self._began) / 60
        if minutes is not None and taken >= minutes:
            text = f"the budget of {minutes:g} minutes is spent"
            return EndReason(CellReason.BUDGET_MINUTES, text, minutes)
        if usd is not None and self.usd >= usd:
            text = f"the budget of {usd:g} USD is spent ({self.usd:.2f})"
            return EndReason(CellReason.BUDGET_USD, text, usd)
        return None
