"""Execution of a plan: its services, its cells, their samples and attempts, and early stops."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.sweeps.run.attempt import Attempts as Attempts
    from tutti.tasks.sweeps.run.budget import BudgetTracker as BudgetTracker
    from tutti.tasks.sweeps.run.records import reply_in as reply_in
    from tutti.tasks.sweeps.run.records import score_columns as score_columns
    from tutti.tasks.sweeps.run.roles import open_judge as open_judge
    from tutti.tasks.sweeps.run.runner import Execution as Execution
    from tutti.tasks.sweeps.run.runner import run_cell as run_cell
    from tutti.tasks.sweeps.run.sweep import run_plan as run_plan
    from tutti.tasks.sweeps.run.sweep import run_suite as run_suite

if not TYPE_CHECKING:  # with it, a type checker would take any name for one of ours
    __getattr__ = lazy(__name__, __file__)
