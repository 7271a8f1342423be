"""The agent: its loop, its tools, and the models (real, oracle, no-op) that drive it."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.agents.loop import Agent as Agent
    from tutti.tasks.agents.loop import AttemptLimits as AttemptLimits
    from tutti.tasks.agents.loop import Trajectory as Trajectory
    from tutti.tasks.agents.loop import agent_of as agent_of
    from tutti.tasks.agents.loop import run_attempt as run_attempt
    from tutti.tasks.agents.models.context import Message as Message
    from tutti.tasks.agents.models.prompts import BOXED_START as BOXED_START
    from tutti.tasks.agents.models.prompts import SYSTEM_PROMPT as SYSTEM_PROMPT
    from tutti.tasks.agents.models.prompts import Oracle as Oracle
    from tutti.tasks.agents.models.prompts import Score as Score
    from tutti.tasks.agents.models.prompts import ToolUse as ToolUse
    from tutti.tasks.agents.models.prompts import boxed as boxed
    from tutti.tasks.agents.models.prompts import last_boxed as last_boxed
    from tutti.tasks.agents.models.prompts import opening as opening
    from tutti.tasks.agents.parallel import COMBINER_ROLES as COMBINER_ROLES
    from tutti.tasks.agents.parallel import Combination as Combination
    from tutti.tasks.agents.parallel import Combine as Combine
    from tutti.tasks.agents.parallel import ParallelSettings as ParallelSettings
    from tutti.tasks.agents.parallel import ParallelThinker as ParallelThinker
    from tutti.tasks.agents.verdicts import fenced as fenced
    from tutti.tasks.agents.verdicts import read_verdict as read_verdict
    from tutti.tasks.agents.verdicts import verdict_line as verdict_line

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
