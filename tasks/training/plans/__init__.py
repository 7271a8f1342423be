"""What a training will do, before it starts."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.training.plans.plan import plan_job as plan_job
    from tutti.tasks.training.plans.plan import read_any_job as read_any_job
    from tutti.tasks.training.plans.plan_base import JobPlan as JobPlan

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
