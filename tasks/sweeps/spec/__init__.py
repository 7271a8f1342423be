"""Suite files: the measured benchmarks and models, the arrival of load, and the gates."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.sweeps.spec.groups import Budget as Budget
    from tutti.tasks.sweeps.spec.groups import Gate as Gate
    from tutti.tasks.sweeps.spec.groups import ParallelThinking as ParallelThinking
    from tutti.tasks.sweeps.spec.groups import read_gates as read_gates
    from tutti.tasks.sweeps.spec.marks import AXIS as AXIS
    from tutti.tasks.sweeps.spec.marks import CELL as CELL
    from tutti.tasks.sweeps.spec.marks import RUN as RUN
    from tutti.tasks.sweeps.spec.marks import SWEEP as SWEEP
    from tutti.tasks.sweeps.spec.marks import FieldScope as FieldScope
    from tutti.tasks.sweeps.spec.marks import marks_of as marks_of
    from tutti.tasks.sweeps.spec.marks import set_fields as set_fields
    from tutti.tasks.sweeps.spec.own import index_of as index_of
    from tutti.tasks.sweeps.spec.own import is_domain as is_domain
    from tutti.tasks.sweeps.spec.own import is_made as is_made
    from tutti.tasks.sweeps.spec.own import open_named as open_named
    from tutti.tasks.sweeps.spec.own import own_command as own_command
    from tutti.tasks.sweeps.spec.own import without_path as without_path
    from tutti.tasks.sweeps.spec.policy import Policy as Policy
    from tutti.tasks.sweeps.spec.policy import policy_in as policy_in
    from tutti.tasks.sweeps.spec.suite import FORMER_TOKENS as FORMER_TOKENS
    from tutti.tasks.sweeps.spec.suite import PUBLIC_ONLY as PUBLIC_ONLY
    from tutti.tasks.sweeps.spec.suite import Suite as Suite
    from tutti.tasks.sweeps.spec.suite import SuiteError as SuiteError
    from tutti.tasks.sweeps.spec.suite import check_cron as check_cron
    from tutti.tasks.sweeps.spec.suite import read_suite as read_suite

if not TYPE_CHECKING:  # with it, a type checker would take any name for one of ours
    __getattr__ = lazy(__name__, __file__)
