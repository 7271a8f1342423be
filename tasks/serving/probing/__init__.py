"""Calls that show whether a model can be measured: each property with a verdict."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.serving.probing.probe import Probe as Probe
    from tutti.tasks.serving.probing.probe import probe_model as probe_model

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
