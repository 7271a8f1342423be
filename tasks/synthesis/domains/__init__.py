"""A synthesized domain: its data, its files, and its toolkit run in the sandbox."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.synthesis.domains.benchmark import domain_benchmark as domain_benchmark
    from tutti.tasks.synthesis.domains.domain import PREFERENCE as PREFERENCE
    from tutti.tasks.synthesis.domains.domain import Action as Action
    from tutti.tasks.synthesis.domains.domain import Domain as Domain
    from tutti.tasks.synthesis.domains.domain import DomainSpec as DomainSpec
    from tutti.tasks.synthesis.domains.domain import DomainTask as DomainTask
    from tutti.tasks.synthesis.domains.domain import FieldSpec as FieldSpec
    from tutti.tasks.synthesis.domains.domain import Parameter as Parameter
    from tutti.tasks.synthesis.domains.domain import Rule as Rule
    from tutti.tasks.synthesis.domains.domain import Scenario as Scenario
    from tutti.tasks.synthesis.domains.domain import TableSpec as TableSpec
    from tutti.tasks.synthesis.domains.domain import ToolSpec as ToolSpec
    from tutti.tasks.synthesis.domains.domain import changed_task as changed_task
    from tutti.tasks.synthesis.domains.folder import DOMAIN_TASK as DOMAIN_TASK
    from tutti.tasks.synthesis.domains.folder import SPEC as SPEC
    from tutti.tasks.synthesis.domains.folder import SPLITS as SPLITS
    from tutti.tasks.synthesis.domains.folder import domain_folders as domain_folders
    from tutti.tasks.synthesis.domains.folder import read_domain_folder as read_domain_folder
    from tutti.tasks.synthesis.domains.folder import write_domain_folder as write_domain_folder
    from tutti.tasks.synthesis.domains.records import RecordChecks as RecordChecks
    from tutti.tasks.synthesis.domains.records import TableChecks as TableChecks
    from tutti.tasks.synthesis.domains.records import is_of_kind as is_of_kind
    from tutti.tasks.synthesis.domains.records import record_model as record_model
    from tutti.tasks.synthesis.domains.stored import StoredCall as StoredCall
    from tutti.tasks.synthesis.domains.stored import end_state as end_state
    from tutti.tasks.synthesis.domains.stored import stored_calls as stored_calls
    from tutti.tasks.synthesis.domains.tau2_folder import write_tau2_folder as write_tau2_folder
    from tutti.tasks.synthesis.domains.toolkit import Act as Act
    from tutti.tasks.synthesis.domains.toolkit import Replay as Replay
    from tutti.tasks.synthesis.domains.toolkit import Result as Result
    from tutti.tasks.synthesis.domains.toolkit import Toolkit as Toolkit
    from tutti.tasks.synthesis.domains.toolkit import ToolkitFailed as ToolkitFailed
    from tutti.tasks.synthesis.domains.world import DomainWorld as DomainWorld

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
