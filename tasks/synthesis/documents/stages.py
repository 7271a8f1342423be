"""Making a set of questions about documents, as a stage of a flow that shows its progress."""

import asyncio

from tutti.storage import Catalog
from tutti.tasks.progress import StageProgress, stage
from tutti.tasks.synthesis.documents.making import PassageSource
from tutti.tasks.synthesis.documents.request import DocumentsRequest
from tutti.tasks.synthesis.documents.teacher_set import TeacherPassageSource
from tutti.tasks.synthesis.gating.contamination import benchmark_questions
from tutti.tasks.synthesis.making.teachers import TeacherPool
from tutti.tasks.task_sets import Source, make_set


@stage(name="tasks")
async def ask_documents(
    progress: StageProgress,
    request: DocumentsRequest,
    catalog: Catalog,
    teachers: TeacherPool | None = None,
) -> tuple[str, str]:
    """Make, or reuse, a set by the program or by a teacher; its id and what the teacher spent."""

    def opened() -> Source:
        known = benchmark_questions(catalog.home) if request.contamination else ()
        if teachers is None:
            return PassageSource(request, catalog, known)
        return TeacherPassageSource(request, teachers, catalog, known)

    source = await asyncio.to_thread(opened)
    return await make_set(source, catalog, progress.show), source.spent
