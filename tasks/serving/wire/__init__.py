"""HTTP/1.1 on asyncio protocols, parsed by httptools: the gateway's server and client, and the
client of the agents' calls.

It takes an order of magnitude less CPU per request than the frameworks do (see docs/gateway.md): a
forwarded call needs no task, no future and no header object. This package is independent of models
and programs.
"""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.serving.wire.answer import Answer as Answer

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
