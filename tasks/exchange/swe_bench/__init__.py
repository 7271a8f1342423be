"""SWE-bench's own program: export of predictions, import of its reports."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.exchange.swe_bench.read import AddedVerdicts as AddedVerdicts
    from tutti.tasks.exchange.swe_bench.read import add_verdicts as add_verdicts
    from tutti.tasks.exchange.swe_bench.write import WrittenPredictions as WrittenPredictions
    from tutti.tasks.exchange.swe_bench.write import last_replies as last_replies
    from tutti.tasks.exchange.swe_bench.write import stored_answers as stored_answers
    from tutti.tasks.exchange.swe_bench.write import write_predictions as write_predictions

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
