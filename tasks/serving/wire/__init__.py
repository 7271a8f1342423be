"""HTTP/1.1 on asyncio protocols, parsed by httptools, with an order of magnitude less CPU per
request than frameworks take (docs/gateway.md). It is independent of models and programs.
"""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.serving.wire.client import Answer as Answer
    from tutti.tasks.serving.wire.client import AnswerReceiver as AnswerReceiver
    from tutti.tasks.serving.wire.client import NoAnswer as NoAnswer
    from tutti.tasks.serving.wire.client import Origin as Origin
    from tutti.tasks.serving.wire.client import ask as ask
    from tutti.tasks.serving.wire.connection import ServerLimits as ServerLimits
    from tutti.tasks.serving.wire.exchange import Exchange as Exchange
    from tutti.tasks.serving.wire.messages import Headers as Headers
    from tutti.tasks.serving.wire.messages import asked_pause_s as asked_pause_s
    from tutti.tasks.serving.wire.screen import RouteScreen as RouteScreen
    from tutti.tasks.serving.wire.screen import SiteGuard as SiteGuard
    from tutti.tasks.serving.wire.server import Server as Server
    from tutti.tasks.serving.wire.server import call_permission as call_permission
    from tutti.tasks.serving.wire.server import serve as serve
    from tutti.tasks.serving.wire.server import stop_on_signals as stop_on_signals

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
