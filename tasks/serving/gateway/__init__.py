"""The gateway: the program-aware proxy every model call passes through."""
