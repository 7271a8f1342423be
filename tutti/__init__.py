"""tutti: Prefect flows that measure tool-using agents and train on what they did.

Every module of ours is below this package: ``tutti.flows``, ``tutti.tasks``, ``tutti.storage``,
``tutti.cli``. In a checkout they are links to the folders beside this one.
"""
