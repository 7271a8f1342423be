"""The command line: `tutti` and the logic behind its verbs."""
