"""Small agents, one file per library, that print the conversation as their library stores it.

They run with the Python of `.venv-harnesses/agents`, which does not have tutti: ``python -m
tests.serving.gateway.recording.agents.with_openai URL chat-whole chat-streamed``.
"""
