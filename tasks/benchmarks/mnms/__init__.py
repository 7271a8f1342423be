"""m&m's: plans of tool calls for multi-modal requests."""
