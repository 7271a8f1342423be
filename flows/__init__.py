"""The flows: one file a flow, the order of stages and nothing else."""
