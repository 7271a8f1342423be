"""The gateway's records: calls, messages, decisions, GPU metrics, and its journal of programs."""
