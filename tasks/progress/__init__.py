"""The progress of a run: its stages in the terminal and in Prefect."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.progress.artifacts import LiveView as LiveView
    from tutti.tasks.progress.artifacts import leave_page as leave_page
    from tutti.tasks.progress.artifacts import leave_table as leave_table
    from tutti.tasks.progress.artifacts import live_artifacts as live_artifacts
    from tutti.tasks.progress.display import StageProgress as StageProgress
    from tutti.tasks.progress.display import SweepProgress as SweepProgress
    from tutti.tasks.progress.stages import StageLog as StageLog
    from tutti.tasks.progress.stages import in_flow_run as in_flow_run
    from tutti.tasks.progress.stages import stage as stage

if not TYPE_CHECKING:  # with it, a type checker would take any name for one of ours
    __getattr__ = lazy(__name__, __file__)
