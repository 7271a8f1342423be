"""External harnesses as agents: their commands, and those that tutti ships."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.agents.commands.command import Command as Command
    from tutti.tasks.agents.commands.command import CommandTrajectory as CommandTrajectory
    from tutti.tasks.agents.commands.command import run_command as run_command
    from tutti.tasks.agents.commands.command_guard import CommandGuard as CommandGuard
    from tutti.tasks.agents.commands.shipped import API_BANK as API_BANK
    from tutti.tasks.agents.commands.shipped import ShippedHarness as ShippedHarness
    from tutti.tasks.agents.commands.shipped import shipped_harness as shipped_harness

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
