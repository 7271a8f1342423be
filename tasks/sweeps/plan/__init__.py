"""From a suite to its cells: their ids, stored rows, missing samples and estimated cost."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.sweeps.plan.config import Adapter as Adapter
    from tutti.tasks.sweeps.plan.config import CellConfig as CellConfig
    from tutti.tasks.sweeps.plan.deployment import Deployment as Deployment
    from tutti.tasks.sweeps.plan.enter import enter_plan as enter_plan
    from tutti.tasks.sweeps.plan.estimate import PlanEstimate as PlanEstimate
    from tutti.tasks.sweeps.plan.estimate import engines_of as engines_of
    from tutti.tasks.sweeps.plan.estimate import notices as notices
    from tutti.tasks.sweeps.plan.estimate import unpriced_models as unpriced_models
    from tutti.tasks.sweeps.plan.library import SearchService as SearchService
    from tutti.tasks.sweeps.plan.library import make_tasks as make_tasks
    from tutti.tasks.sweeps.plan.library import task_set_of as task_set_of
    from tutti.tasks.sweeps.plan.missing import EndReason as EndReason
    from tutti.tasks.sweeps.plan.missing import finished_samples as finished_samples
    from tutti.tasks.sweeps.plan.missing import missing_cells as missing_cells
    from tutti.tasks.sweeps.plan.missing import unfinished_cells as unfinished_cells
    from tutti.tasks.sweeps.plan.plan import Cell as Cell
    from tutti.tasks.sweeps.plan.plan import Plan as Plan
    from tutti.tasks.sweeps.plan.plan import Sample as Sample
    from tutti.tasks.sweeps.plan.plan import plan_of as plan_of
    from tutti.tasks.sweeps.plan.plan import sandbox_level as sandbox_level
    from tutti.tasks.sweeps.plan.plan import sweep_content as sweep_content
    from tutti.tasks.sweeps.plan.roles import Roles as Roles
    from tutti.tasks.sweeps.plan.roles import ServedModel as ServedModel
    from tutti.tasks.sweeps.plan.roles import other_models as other_models
    from tutti.tasks.sweeps.plan.task_set import TaskSet as TaskSet

if not TYPE_CHECKING:  # with it, a type checker would take any name for one of ours
    __getattr__ = lazy(__name__, __file__)
