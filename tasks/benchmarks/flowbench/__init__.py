"""FlowBench: agents that follow a workflow, turn by turn or in a session."""
