"""Tests of the orchestrator with scripted models, without a server or a clock."""
