"""Domains and tasks by a teacher model, through any endpoint with OpenAI's chat API."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.synthesis.teacher.asking import BatchCall as BatchCall
    from tutti.tasks.synthesis.teacher.asking import Question as Question
    from tutti.tasks.synthesis.teacher.asking import Teacher as Teacher
    from tutti.tasks.synthesis.teacher.asking import TeacherSampling as TeacherSampling
    from tutti.tasks.synthesis.teacher.budget import Meter as Meter
    from tutti.tasks.synthesis.teacher.budget import TeacherBudget as TeacherBudget
    from tutti.tasks.synthesis.teacher.budget import TeacherPrices as TeacherPrices
    from tutti.tasks.synthesis.teacher.budget import prices_of as prices_of
    from tutti.tasks.synthesis.teacher.chain import Chain as Chain
    from tutti.tasks.synthesis.teacher.client import TeacherClient as TeacherClient
    from tutti.tasks.synthesis.teacher.client import TeacherEndpoint as TeacherEndpoint
    from tutti.tasks.synthesis.teacher.client import provider_address as provider_address
    from tutti.tasks.synthesis.teacher.faults import BudgetSpent as BudgetSpent
    from tutti.tasks.synthesis.teacher.faults import TeacherFailed as TeacherFailed
    from tutti.tasks.synthesis.teacher.items import Items as Items
    from tutti.tasks.synthesis.teacher.items import ItemsQuestion as ItemsQuestion
    from tutti.tasks.synthesis.teacher.items import ask_items as ask_items
    from tutti.tasks.synthesis.teacher.plan import BudgetedRequest as BudgetedRequest
    from tutti.tasks.synthesis.teacher.plan import TeacherRequest as TeacherRequest
    from tutti.tasks.synthesis.teacher.plan import plan_teacher as plan_teacher
    from tutti.tasks.synthesis.teacher.prompts import Prompt as Prompt
    from tutti.tasks.synthesis.teacher.prompts import read_prompts as read_prompts
    from tutti.tasks.synthesis.teacher.store import open_store as open_store
    from tutti.tasks.synthesis.teacher.tasking import TeacherTasks as TeacherTasks
    from tutti.tasks.synthesis.teacher.tasking import make_tasks as make_tasks

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
