"""NeMo-Skills' outputs: import and export."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.exchange.nemo_skills.write import RESULTS as RESULTS
    from tutti.tasks.exchange.nemo_skills.write import BenchmarkMetrics as BenchmarkMetrics
    from tutti.tasks.exchange.nemo_skills.write import WrittenRun as WrittenRun
    from tutti.tasks.exchange.nemo_skills.write import write_run as write_run

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
