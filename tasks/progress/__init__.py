"""The progress of a run: its stages in the terminal and in Prefect."""
