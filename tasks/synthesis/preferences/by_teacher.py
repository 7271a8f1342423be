"""A set with preferences by a teacher: pairs are asked for, checked, and dealt to the tasks."""

from tutti.storage import Catalog, held
from tutti.tasks.synthesis.domains import domain_folders, read_domain_folder
from tutti.tasks.synthesis.generate import find_task_set
from tutti.tasks.synthesis.making.make import work_folder
from tutti.tasks.synthesis.making.teachers import TeacherPool, open_teachers
from tutti.tasks.synthesis.preferences.making import make_preference_set, set_folder
from tutti.tasks.synthesis.preferences.proposing import ask_preferences
from tutti.tasks.synthesis.preferences.request import PreferenceRequest


async def make_taught_preference_set(
    request: PreferenceRequest, desk: TeacherPool, catalog: Catalog
) -> tuple[str, str]:
    """Make the set, or find an existing one; returns its id and what this run spent.

    `desk` has two models: who proposes and who checks. What they answered is kept until the set is
    entered. Raises TeacherFailed, BudgetSpent, and as `make_preference_set` does.
    """
    known = find_task_set(catalog, request.request_hash)
    if known is not None:
        return known, ""
    folder = domain_folders(set_folder(catalog, request.task_set))[0]
    domain, _ = read_domain_folder(folder)
    work = work_folder(catalog, request.request_hash)
    with held(catalog, f"asking for {request.request_hash}"):  # two would pay twice
        async with open_teachers(desk, work / "teacher") as ((proposer, checker), meter):
            proposed = await ask_preferences(proposer, checker, domain, request.pairs)
            spent = meter.text
    return await make_preference_set(request, catalog, proposed), spent
