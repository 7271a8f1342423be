"""Servers that tutti starts: their settings, their commands, and what the environment is built for.

settings -> launch -> flags, fitting -> commands -> checking
"""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.serving.engines.checking import Verdict as Verdict
    from tutti.tasks.serving.engines.checking import check_launches as check_launches
    from tutti.tasks.serving.engines.checking import needs_check as needs_check
    from tutti.tasks.serving.engines.checking import refuse_wrong_commands as refuse_wrong_commands
    from tutti.tasks.serving.engines.commands import Build as Build
    from tutti.tasks.serving.engines.commands import Source as Source
    from tutti.tasks.serving.engines.commands import build_of as build_of
    from tutti.tasks.serving.engines.commands import command_of as command_of
    from tutti.tasks.serving.engines.commands import device_of as device_of
    from tutti.tasks.serving.engines.commands import launch_of as launch_of
    from tutti.tasks.serving.engines.commands import require_device as require_device
    from tutti.tasks.serving.engines.fitting import CacheRecord as CacheRecord
    from tutti.tasks.serving.engines.fitting import CacheSize as CacheSize
    from tutti.tasks.serving.engines.fitting import Place as Place
    from tutti.tasks.serving.engines.fitting import estimated_cache as estimated_cache
    from tutti.tasks.serving.engines.fitting import fit_of as fit_of
    from tutti.tasks.serving.engines.fitting import keep_cache as keep_cache
    from tutti.tasks.serving.engines.fitting import known_cache as known_cache
    from tutti.tasks.serving.engines.fitting import place as place
    from tutti.tasks.serving.engines.fitting import (
        refuse_what_does_not_fit as refuse_what_does_not_fit,
    )
    from tutti.tasks.serving.engines.fitting import reported_cache as reported_cache
    from tutti.tasks.serving.engines.launch import Launch as Launch
    from tutti.tasks.serving.engines.launch import ServerCommand as ServerCommand
    from tutti.tasks.serving.engines.settings import BLOCK_TOKENS as BLOCK_TOKENS
    from tutti.tasks.serving.engines.settings import Device as Device
    from tutti.tasks.serving.engines.settings import EngineSettings as EngineSettings
    from tutti.tasks.serving.engines.start_failures import explain as explain
    from tutti.tasks.serving.engines.start_failures import is_port_taken as is_port_taken
    from tutti.tasks.serving.engines.warm import IdleSleep as IdleSleep
    from tutti.tasks.serving.engines.warm import WarmEngine as WarmEngine
    from tutti.tasks.serving.engines.warm import announce as announce
    from tutti.tasks.serving.engines.warm import is_ready as is_ready
    from tutti.tasks.serving.engines.warm import is_used as is_used
    from tutti.tasks.serving.engines.warm import used as used
    from tutti.tasks.serving.engines.warm import warm_engines as warm_engines

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
