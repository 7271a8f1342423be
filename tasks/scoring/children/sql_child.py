"""The worker of the scorers of SQL, with limits of memory and file size. Run by workers.py.

Request: the fields of `Queries`, and ``measure``. Answer: the measure's result; or ``gold failed``
or ``failed`` with the reason.
"""

import resource
from typing import Any

from tutti.tasks.scoring.children.sql_rows import MEASURES, GoldFailed, Queries, QueryFailed
from tutti.tasks.scoring.children.workers import serve

MEMORY_BYTES = 2 * 2**30
FILE_BYTES = 2**30


def answer(request: dict[str, Any]) -> dict[str, Any]:
    del request["timeout_s"]  # of the whole request
    measure = MEASURES[request.pop("measure")]
    try:
        return measure(Queries(**request))
    except GoldFailed as error:
        return {"gold failed": str(error)}
    except (QueryFailed, MemoryError) as error:
        return {"failed": str(error) or type(error).__name__}


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    serve(answer)
