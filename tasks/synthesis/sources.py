"""All requests for task sets, and the source for each."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from tutti.storage import Catalog
from tutti.tasks.synthesis.documents.by_teacher import TeacherPassageSource
from tutti.tasks.synthesis.documents.judging import DocumentsRequest, PassageSource
from tutti.tasks.synthesis.gating.contamination import benchmark_questions
from tutti.tasks.synthesis.generate import TaskRequest
from tutti.tasks.synthesis.making.agreement import AgreementRequest, AgreementSource
from tutti.tasks.synthesis.making.band import BandRequest, BandSource
from tutti.tasks.synthesis.making.by_program import DomainRequest, DomainSource
from tutti.tasks.synthesis.making.by_teacher import TeacherDomainSource, TeacherSetRequest
from tutti.tasks.synthesis.making.judging import JudgedSource, JudgeRequest
from tutti.tasks.synthesis.making.teachers import TeacherPool
from tutti.tasks.synthesis.preferences.making import PreferenceRequest, PreferenceSource
from tutti.tasks.synthesis.skills.making import LabelRequest, LabelSource
from tutti.tasks.task_sets import Source

StoredRequest = PreferenceRequest | LabelRequest | BandRequest | AgreementRequest | JudgeRequest
"""Of a stored set."""
SetRequest = Annotated[
    TaskRequest | DomainRequest | TeacherSetRequest | DocumentsRequest | StoredRequest,
    Field(discriminator="source"),
]


def source_of(
    request: DomainRequest | TeacherSetRequest | DocumentsRequest | StoredRequest,
    catalog: Catalog,
    teachers: TeacherPool | None,
) -> Source:
    """Return the source of a request; `teachers`: its `models_asked`, or None without any. Raises
    UsageError for an index or a set that does not exist."""
    match request:
        case PreferenceRequest():
            return PreferenceSource(request, catalog, teachers)
        case LabelRequest():
            return LabelSource(request, catalog, teachers)
        case AgreementRequest():
            return AgreementSource(request, catalog)
        case BandRequest():
            return BandSource(request, catalog)
        case JudgeRequest():
            return JudgedSource(request, _served(teachers), catalog)
        case TeacherSetRequest():
            known = benchmark_questions(catalog.home)
            return TeacherDomainSource(request, _served(teachers), catalog, known)
    questions: Sequence[str] = benchmark_questions(catalog.home) if request.contamination else ()
    if isinstance(request, DomainRequest):
        return DomainSource(request, questions)
    if teachers is None:
        return PassageSource(request, catalog, questions)
    return TeacherPassageSource(request, teachers, catalog, questions)


def _served(teachers: TeacherPool | None) -> TeacherPool:
    assert teachers is not None, "the request names a model"
    return teachers
