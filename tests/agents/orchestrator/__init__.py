"""The orchestrator, played with scripted models: no server, no clock."""
