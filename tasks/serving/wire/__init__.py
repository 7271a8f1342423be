"""HTTP/1.1 on asyncio protocols, parsed by httptools: the gateway's server and client, and the
client of the agents' calls.

An order of magnitude less CPU a request than the frameworks' (see docs/gateway.md): no task, no
future and no header object for a call that is passed on. Nothing here knows of models or programs.
"""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.serving.wire.answer import Answer as Answer

if not TYPE_CHECKING:  # with it, a type checker would take any name for one of ours
    __getattr__ = lazy(__name__, __file__)
