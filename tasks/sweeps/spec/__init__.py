"""Suite files: what a sweep measures, how its load arrives and what it must reach."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.sweeps.spec.gate_file import Gate as Gate
    from tutti.tasks.sweeps.spec.gate_file import GateFile as GateFile
    from tutti.tasks.sweeps.spec.gate_file import read_gates as read_gates
    from tutti.tasks.sweeps.spec.grid import parts as parts
    from tutti.tasks.sweeps.spec.grid import sweep_id_of as sweep_id_of
    from tutti.tasks.sweeps.spec.load import due_times as due_times
    from tutti.tasks.sweeps.spec.load import ramp_starts as ramp_starts
    from tutti.tasks.sweeps.spec.load import sessions_of as sessions_of
    from tutti.tasks.sweeps.spec.suite import STDLIB as STDLIB
    from tutti.tasks.sweeps.spec.suite import Budget as Budget
    from tutti.tasks.sweeps.spec.suite import Suite as Suite
    from tutti.tasks.sweeps.spec.suite import SuiteError as SuiteError
    from tutti.tasks.sweeps.spec.suite import read_suite as read_suite
    from tutti.tasks.sweeps.spec.suite import with_fields as with_fields

__getattr__ = lazy(__name__, __file__)
