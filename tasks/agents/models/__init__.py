"""Models that drive an agent: those behind an endpoint, and scripted ones."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.agents.models.client import PASSING as PASSING
    from tutti.tasks.agents.models.client import Client as Client
    from tutti.tasks.agents.models.client import Retry as Retry
    from tutti.tasks.agents.models.model import ORCHESTRATOR as ORCHESTRATOR
    from tutti.tasks.agents.models.model import CallOrigin as CallOrigin
    from tutti.tasks.agents.models.model import ChatModel as ChatModel
    from tutti.tasks.agents.models.model import ContextExceeded as ContextExceeded
    from tutti.tasks.agents.models.model import GatewayModel as GatewayModel
    from tutti.tasks.agents.models.model import ModelCallFailed as ModelCallFailed
    from tutti.tasks.agents.models.model import Reply as Reply
    from tutti.tasks.agents.models.model import Sampling as Sampling
    from tutti.tasks.agents.models.model import completion as completion
    from tutti.tasks.agents.models.model import cost_of as cost_of
    from tutti.tasks.agents.models.model import restricted as restricted
    from tutti.tasks.agents.models.model import retried as retried
    from tutti.tasks.agents.models.model import sampling_of as sampling_of
    from tutti.tasks.agents.models.reasoning import AUTO as AUTO
    from tutti.tasks.agents.models.reasoning import OFF as OFF
    from tutti.tasks.agents.models.reasoning import check_reasoning as check_reasoning
    from tutti.tasks.agents.models.reasoning import separate as separate
    from tutti.tasks.agents.models.reasoning import separated as separated
    from tutti.tasks.agents.models.scripted import NoOpModel as NoOpModel
    from tutti.tasks.agents.models.scripted import OracleModel as OracleModel

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
