"""Import of ThunderAgent's and ToolOrchestra's logs, and export of ThunderAgent's summaries."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.exchange.thunderagent.write import RunFiles as RunFiles
    from tutti.tasks.exchange.thunderagent.write import combined_summary as combined_summary
    from tutti.tasks.exchange.thunderagent.write import over as over
    from tutti.tasks.exchange.thunderagent.write import steps_summary as steps_summary
    from tutti.tasks.exchange.thunderagent.write import window_summary as window_summary
    from tutti.tasks.exchange.thunderagent.write import write_logs as write_logs

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
