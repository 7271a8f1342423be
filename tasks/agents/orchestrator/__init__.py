"""The orchestrator: a model that picks a tool and, for it, an expert; the expert does the work.

In: an agent file (`deployments/agents/*.yaml`), a problem, and how to reach experts, a retrieval
service and the sandbox. Out: an `Orchestrator` for questions (`search`, `enhance_reasoning`,
`answer`), `ExpertTurns` for dialogues (`call_expert`), or `StrategistTurns` for worlds with
strategies (`act`), all for the loop of `tasks.agents.loop`.
The orchestrator never writes a query, a program or an answer; it knows experts by alias alone, so
that models and prices can change behind them. Source of the design: Su et al., "ToolOrchestra:
Elevating Intelligence via Efficient Model and Tool Orchestration", 2025.
"""

from tutti.tasks.agents.orchestrator.agent_file import (
    AgentFile,
    AgentFileError,
    Caps,
    Expert,
    known_agents,
    read_agent,
)
from tutti.tasks.agents.orchestrator.consult import Experts
from tutti.tasks.agents.orchestrator.draw import drawn
from tutti.tasks.agents.orchestrator.orchestrator import Orchestrator
from tutti.tasks.agents.orchestrator.strategist import (
    Actor,
    MoveTask,
    StrategistTurns,
    StrategyWorld,
)
from tutti.tasks.agents.orchestrator.task_experts import at_task_prices, offered_by_task
from tutti.tasks.agents.orchestrator.turns import ExpertTurns, offered_expert_tool

__all__ = [
    "Actor",
    "AgentFile",
    "AgentFileError",
    "Caps",
    "Expert",
    "ExpertTurns",
    "Experts",
    "MoveTask",
    "Orchestrator",
    "StrategistTurns",
    "StrategyWorld",
    "at_task_prices",
    "drawn",
    "known_agents",
    "offered_by_task",
    "offered_expert_tool",
    "read_agent",
]
