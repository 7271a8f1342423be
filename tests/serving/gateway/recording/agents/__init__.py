"""Small agents, one file a library, that print the conversation as their library keeps it.

Run by the Python of `.venv-harnesses/agents`, which does not have tutti: ``python -m
tests.serving.gateway.recording.agents.with_openai URL chat-whole chat-streamed``.
"""
