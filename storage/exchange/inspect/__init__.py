"""Inspect's logs, in and out."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.storage.exchange.inspect.read import require_inspect as require_inspect

__getattr__ = lazy(__name__, __file__)
