"""The verbs that serve models: gateway, models, simulate."""
