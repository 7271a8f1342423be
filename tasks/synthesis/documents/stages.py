"""Making a set of questions about documents, as stages of a flow that show their progress."""

import asyncio

from tutti.storage import Catalog
from tutti.tasks.progress import StageProgress, stage
from tutti.tasks.synthesis.documents.making import make_document_set
from tutti.tasks.synthesis.documents.request import DocumentsRequest
from tutti.tasks.synthesis.documents.teacher_set import make_document_set_by_teacher
from tutti.tasks.synthesis.gating.contamination import benchmark_questions
from tutti.tasks.synthesis.making.by_teacher import TeacherSet
from tutti.tasks.synthesis.teacher import TeacherEndpoint, TeacherPrices

ServedTeacher = tuple[TeacherEndpoint, TeacherPrices | None]
"""Where a teacher answers, and what its answers cost."""


@stage(name="tasks")
async def ask_documents(
    progress: StageProgress, request: DocumentsRequest, catalog: Catalog
) -> str:
    """Make, or reuse, a set by the program; returns its id."""

    def make() -> str:
        known = benchmark_questions(catalog.home) if request.contamination else ()
        return make_document_set(request, catalog, known, progress.show)

    return await asyncio.to_thread(make)


@stage(name="teacher")
async def ask_teacher_about_documents(
    progress: StageProgress, request: DocumentsRequest, served: ServedTeacher, catalog: Catalog
) -> TeacherSet:
    """Make, or reuse, a set by a teacher."""
    home = catalog.home
    known = await asyncio.to_thread(benchmark_questions, home) if request.contamination else ()
    return await make_document_set_by_teacher(request, *served, catalog, known, progress.show)
