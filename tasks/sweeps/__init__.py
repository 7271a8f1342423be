"""Sweeps: suites become plans, plans become cells, cells become attempts in the store."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.sweeps.errors import GateError as GateError
    from tutti.tasks.sweeps.errors import SuiteError as SuiteError

__getattr__ = lazy(__name__, __file__)
