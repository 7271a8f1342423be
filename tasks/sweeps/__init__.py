"""Sweeps: suites become plans, plans become cells, cells become attempts in the store."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.sweeps.errors import GateError as GateError
    from tutti.tasks.sweeps.errors import SuiteError as SuiteError

if not TYPE_CHECKING:  # with it, a type checker would take any name for one of ours
    __getattr__ = lazy(__name__, __file__)
