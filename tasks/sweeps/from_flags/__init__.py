"""Sweeps without a suite file of the user's: `tutti run` and `tutti.run` write and store one."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.sweeps.from_flags.keep import KeptSweep as KeptSweep
    from tutti.tasks.sweeps.from_flags.keep import RunSettings as RunSettings
    from tutti.tasks.sweeps.from_flags.keep import entry_name as entry_name
    from tutti.tasks.sweeps.from_flags.keep import keep_sweep as keep_sweep

if not TYPE_CHECKING:  # with it, a type checker would take any name for one of ours
    __getattr__ = lazy(__name__, __file__)
