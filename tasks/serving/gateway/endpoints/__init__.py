"""Engines behind the gateway in pools, each with its scheduler, and the journal of programs."""
