"""Tasks: one form for those of public benchmarks and those that tutti generates; gates; task set
creation."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.task_sets.files import TASK as TASK
    from tutti.tasks.task_sets.files import TASKS as TASKS
    from tutti.tasks.task_sets.files import Row as Row
    from tutti.tasks.task_sets.files import first_error as first_error
    from tutti.tasks.task_sets.files import is_judged as is_judged
    from tutti.tasks.task_sets.files import read_part as read_part
    from tutti.tasks.task_sets.files import read_tasks as read_tasks
    from tutti.tasks.task_sets.files import task_line as task_line
    from tutti.tasks.task_sets.files import write_part as write_part
    from tutti.tasks.task_sets.files import write_tasks as write_tasks
    from tutti.tasks.task_sets.gate import PASSED as PASSED
    from tutti.tasks.task_sets.gate import Gate as Gate
    from tutti.tasks.task_sets.gate import Judged as Judged
    from tutti.tasks.task_sets.gate import Verdict as Verdict
    from tutti.tasks.task_sets.gate import run_gates as run_gates
    from tutti.tasks.task_sets.gate import verdict as verdict
    from tutti.tasks.task_sets.make import SETTINGS as SETTINGS
    from tutti.tasks.task_sets.make import NothingMade as NothingMade
    from tutti.tasks.task_sets.make import SetInMaking as SetInMaking
    from tutti.tasks.task_sets.make import Show as Show
    from tutti.tasks.task_sets.make import Source as Source
    from tutti.tasks.task_sets.make import make_set as make_set
    from tutti.tasks.task_sets.plan import SetPlan as SetPlan
    from tutti.tasks.task_sets.task import EXPERTS as EXPERTS
    from tutti.tasks.task_sets.task import IMAGE as IMAGE
    from tutti.tasks.task_sets.task import ExcludedRow as ExcludedRow
    from tutti.tasks.task_sets.task import Message as Message
    from tutti.tasks.task_sets.task import Slots as Slots
    from tutti.tasks.task_sets.task import Task as Task

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
