"""Tasks: one form for those of public benchmarks and those that tutti makes; and gates of tasks."""

from tutti.tasks.task_sets.gate import PASSED as PASSED
from tutti.tasks.task_sets.gate import Judged as Judged
from tutti.tasks.task_sets.gate import Verdict as Verdict
from tutti.tasks.task_sets.gate import run_gates as run_gates
from tutti.tasks.task_sets.gate import verdict as verdict
from tutti.tasks.task_sets.task import EXPERTS as EXPERTS
from tutti.tasks.task_sets.task import IMAGE as IMAGE
from tutti.tasks.task_sets.task import ExcludedRow as ExcludedRow
from tutti.tasks.task_sets.task import Message as Message
from tutti.tasks.task_sets.task import Slots as Slots
from tutti.tasks.task_sets.task import Task as Task
