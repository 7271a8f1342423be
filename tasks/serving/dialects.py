"""The forms in which models write tool calls; `tutti.tasks.agents.models.calls` reads them."""

from typing import Literal

Dialect = Literal["openai", "hermes", "llama", "json"]
"""``openai``: the endpoint parses calls itself; text is text."""
