"""The agent: its loop, its tools, and the models (real, oracle, no-op) that drive it."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.agents.command import Command as Command
    from tutti.tasks.agents.command import CommandTrajectory as CommandTrajectory
    from tutti.tasks.agents.command import run_command as run_command
    from tutti.tasks.agents.command_guard import CommandGuard as CommandGuard
    from tutti.tasks.agents.context import Message as Message
    from tutti.tasks.agents.loop import Agent as Agent
    from tutti.tasks.agents.loop import AttemptLimits as AttemptLimits
    from tutti.tasks.agents.loop import Trajectory as Trajectory
    from tutti.tasks.agents.loop import agent_of as agent_of
    from tutti.tasks.agents.loop import run_attempt as run_attempt
    from tutti.tasks.agents.mcp import open_mcp as open_mcp
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
    from tutti.tasks.agents.parallel import COMBINER_ROLES as COMBINER_ROLES
    from tutti.tasks.agents.parallel import Combination as Combination
    from tutti.tasks.agents.parallel import Combine as Combine
    from tutti.tasks.agents.parallel import ParallelSettings as ParallelSettings
    from tutti.tasks.agents.parallel import ParallelThinker as ParallelThinker
    from tutti.tasks.agents.parallel import Taken as Taken
    from tutti.tasks.agents.prompts import BOXED_START as BOXED_START
    from tutti.tasks.agents.prompts import SYSTEM_PROMPT as SYSTEM_PROMPT
    from tutti.tasks.agents.prompts import Oracle as Oracle
    from tutti.tasks.agents.prompts import Score as Score
    from tutti.tasks.agents.prompts import ToolUse as ToolUse
    from tutti.tasks.agents.prompts import boxed as boxed
    from tutti.tasks.agents.prompts import last_boxed as last_boxed
    from tutti.tasks.agents.prompts import opening as opening
    from tutti.tasks.agents.retrieve import MAX_QUERY_CHARS as MAX_QUERY_CHARS
    from tutti.tasks.agents.retrieve import open_http as open_http
    from tutti.tasks.agents.retrieve import service_search as service_search
    from tutti.tasks.agents.shipped import API_BANK as API_BANK
    from tutti.tasks.agents.shipped import ShippedHarness as ShippedHarness
    from tutti.tasks.agents.shipped import shipped_harness as shipped_harness
    from tutti.tasks.agents.toolbox import SearchTool as SearchTool
    from tutti.tasks.agents.toolbox import Toolbox as Toolbox
    from tutti.tasks.agents.tools import MALFORMED as MALFORMED
    from tutti.tasks.agents.tools import TOOL_SCHEMAS as TOOL_SCHEMAS
    from tutti.tasks.agents.tools import DescribedTools as DescribedTools
    from tutti.tasks.agents.tools import Environment as Environment
    from tutti.tasks.agents.tools import JoinedTools as JoinedTools
    from tutti.tasks.agents.tools import Partner as Partner
    from tutti.tasks.agents.tools import ToolResult as ToolResult
    from tutti.tasks.agents.tools import Tools as Tools
    from tutti.tasks.agents.tools import ToolUnavailable as ToolUnavailable
    from tutti.tasks.agents.tools import arguments_of as arguments_of
    from tutti.tasks.agents.tools import refused as refused
    from tutti.tasks.agents.verdicts import fenced as fenced
    from tutti.tasks.agents.verdicts import read_verdict as read_verdict
    from tutti.tasks.agents.verdicts import verdict_line as verdict_line

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
