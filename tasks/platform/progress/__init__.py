"""The progress of a run: its stages in the terminal and in Prefect."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.platform.progress.artifacts import LiveView as LiveView
    from tutti.tasks.platform.progress.artifacts import leave_page as leave_page
    from tutti.tasks.platform.progress.artifacts import leave_table as leave_table
    from tutti.tasks.platform.progress.artifacts import live_artifacts as live_artifacts
    from tutti.tasks.platform.progress.display import StageProgress as StageProgress
    from tutti.tasks.platform.progress.runs import Run as Run
    from tutti.tasks.platform.progress.runs import code_version as code_version
    from tutti.tasks.platform.progress.runs import describe_machine as describe_machine
    from tutti.tasks.platform.progress.runs import open_run as open_run
    from tutti.tasks.platform.progress.stages import StageLog as StageLog
    from tutti.tasks.platform.progress.stages import in_flow_run as in_flow_run
    from tutti.tasks.platform.progress.stages import stage as stage

if not TYPE_CHECKING:  # with it, a type checker would take any name for one of ours
    __getattr__ = lazy(__name__, __file__)
