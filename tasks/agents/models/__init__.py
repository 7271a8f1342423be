"""Models that drive an agent: those behind an endpoint, and scripted ones."""
