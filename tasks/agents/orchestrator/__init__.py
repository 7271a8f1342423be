"""The orchestrator: a model that picks a tool and an expert for it; the expert does the work.

It never writes a query, a program or an answer, and knows experts only by alias. Source of the
design: Su et al., "ToolOrchestra: Elevating Intelligence via Efficient Model and Tool
Orchestration", 2025.
"""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.agents.orchestrator.agent_file import AgentFile as AgentFile
    from tutti.tasks.agents.orchestrator.agent_file import AgentFileError as AgentFileError
    from tutti.tasks.agents.orchestrator.agent_file import Expert as Expert
    from tutti.tasks.agents.orchestrator.agent_file import known_agents as known_agents
    from tutti.tasks.agents.orchestrator.agent_file import read_agent as read_agent
    from tutti.tasks.agents.orchestrator.escalate import Experts as Experts
    from tutti.tasks.agents.orchestrator.offer import at_task_prices as at_task_prices
    from tutti.tasks.agents.orchestrator.offer import drawn as drawn
    from tutti.tasks.agents.orchestrator.offer import offered_by_task as offered_by_task
    from tutti.tasks.agents.orchestrator.orchestrator import Orchestrator as Orchestrator
    from tutti.tasks.agents.orchestrator.turns import Actor as Actor
    from tutti.tasks.agents.orchestrator.turns import ExpertTurns as ExpertTurns
    from tutti.tasks.agents.orchestrator.turns import MoveTask as MoveTask
    from tutti.tasks.agents.orchestrator.turns import StrategistTurns as StrategistTurns
    from tutti.tasks.agents.orchestrator.turns import StrategyWorld as StrategyWorld
    from tutti.tasks.agents.orchestrator.turns import offered_expert_tool as offered_expert_tool

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
