"""Search for the highest concurrency that meets objectives."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.sweeps.search.search import Objectives as Objectives
    from tutti.tasks.sweeps.search.search import Probe as Probe
    from tutti.tasks.sweeps.search.search import SearchOutcome as SearchOutcome
    from tutti.tasks.sweeps.search.search import content_of as content_of
    from tutti.tasks.sweeps.search.search import find_highest as find_highest
    from tutti.tasks.sweeps.search.search import lines_of as lines_of
    from tutti.tasks.sweeps.search.search import never_run as never_run
    from tutti.tasks.sweeps.search.search import probe_suite as probe_suite
    from tutti.tasks.sweeps.search.search import read_probe as read_probe

if not TYPE_CHECKING:  # with it, a type checker would take any name for one of ours
    __getattr__ = lazy(__name__, __file__)
