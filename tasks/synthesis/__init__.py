"""Task synthesis: candidates are proposed, gates decide, every verdict is stored.

`families` and `generate`: questions over the standard library. `domains`, `programs`, `gating`,
`making`: whole domains with a database, tools and a policy. `documents`: questions about a user's
own documents.
"""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.synthesis.counts import GATES_SQL as GATES_SQL
    from tutti.tasks.synthesis.counts import count_gates as count_gates
    from tutti.tasks.synthesis.counts import count_lines as count_lines
    from tutti.tasks.synthesis.counts import count_reasons as count_reasons
    from tutti.tasks.synthesis.counts import count_tasks as count_tasks
    from tutti.tasks.synthesis.counts import gate_lines as gate_lines
    from tutti.tasks.synthesis.documents.benchmark import document_benchmark as document_benchmark
    from tutti.tasks.synthesis.documents.benchmark import has_questions as has_questions
    from tutti.tasks.synthesis.documents.benchmark import searched_index as searched_index
    from tutti.tasks.synthesis.documents.by_teacher import plan_by_teacher as plan_by_teacher
    from tutti.tasks.synthesis.documents.judging import DocumentsRequest as DocumentsRequest
    from tutti.tasks.synthesis.documents.judging import plan_document_set as plan_document_set
    from tutti.tasks.synthesis.domains.benchmark import domain_benchmark as domain_benchmark
    from tutti.tasks.synthesis.domains.domain import Domain as Domain
    from tutti.tasks.synthesis.domains.domain import DomainSpec as DomainSpec
    from tutti.tasks.synthesis.domains.domain import DomainTask as DomainTask
    from tutti.tasks.synthesis.domains.folder import domain_folders as domain_folders
    from tutti.tasks.synthesis.domains.folder import read_domain_folder as read_domain_folder
    from tutti.tasks.synthesis.domains.stored import StoredCall as StoredCall
    from tutti.tasks.synthesis.domains.stored import end_state as end_state
    from tutti.tasks.synthesis.domains.stored import stored_calls as stored_calls
    from tutti.tasks.synthesis.families.task import question_task as question_task
    from tutti.tasks.synthesis.gating.contamination import (
        benchmark_questions as benchmark_questions,
    )
    from tutti.tasks.synthesis.generate import POCKET_FAMILIES as POCKET_FAMILIES
    from tutti.tasks.synthesis.generate import StdlibSource as StdlibSource
    from tutti.tasks.synthesis.generate import TaskRequest as TaskRequest
    from tutti.tasks.synthesis.generate import find_made as find_made
    from tutti.tasks.synthesis.generate import read_conversations as read_conversations
    from tutti.tasks.synthesis.generate import read_split as read_split
    from tutti.tasks.synthesis.making.agreement import AgreementRequest as AgreementRequest
    from tutti.tasks.synthesis.making.band import BandRequest as BandRequest
    from tutti.tasks.synthesis.making.band import BandSource as BandSource
    from tutti.tasks.synthesis.making.by_program import DomainRequest as DomainRequest
    from tutti.tasks.synthesis.making.by_program import DomainSource as DomainSource
    from tutti.tasks.synthesis.making.by_program import plan_domain_set as plan_domain_set
    from tutti.tasks.synthesis.making.by_teacher import TeacherDomainSource as TeacherDomainSource
    from tutti.tasks.synthesis.making.by_teacher import TeacherSetRequest as TeacherSetRequest
    from tutti.tasks.synthesis.making.judging import JudgeRequest as JudgeRequest
    from tutti.tasks.synthesis.making.teachers import TeacherPool as TeacherPool
    from tutti.tasks.synthesis.making.teachers import open_teachers as open_teachers
    from tutti.tasks.synthesis.programs import PROGRAMS as PROGRAMS
    from tutti.tasks.synthesis.sources import SetRequest as SetRequest
    from tutti.tasks.synthesis.sources import source_of as source_of

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
