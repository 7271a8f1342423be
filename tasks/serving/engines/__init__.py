"""Servers that tutti starts: their commands, their checks, and the engines that run."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.serving.engines.checking import needs_check as needs_check
    from tutti.tasks.serving.engines.control import asleep as asleep
    from tutti.tasks.serving.engines.control import load_adapter as load_adapter
    from tutti.tasks.serving.engines.control import swap_weights as swap_weights
    from tutti.tasks.serving.engines.engine import Engine as Engine
    from tutti.tasks.serving.engines.engine import ExternalEndpoint as ExternalEndpoint
    from tutti.tasks.serving.engines.engine import check_engines as check_engines
    from tutti.tasks.serving.engines.engine import engine_line as engine_line
    from tutti.tasks.serving.engines.engine import engine_lines as engine_lines
    from tutti.tasks.serving.engines.engine import engine_of as engine_of
    from tutti.tasks.serving.engines.engine import models_python as models_python
    from tutti.tasks.serving.engines.engine import place_engines as place_engines
    from tutti.tasks.serving.engines.engine import require_engines as require_engines
    from tutti.tasks.serving.engines.fitting import known_cache as known_cache

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
