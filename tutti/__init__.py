"""tutti: Prefect flows that measure tool-using agents and train on their attempts.

Every module is below this package; in a checkout its folders are links to the folders beside it.
The names below are the API for Python programs; each is loaded on first use.
"""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.api import RunSettings as RunSettings
    from tutti.api import SweepResult as SweepResult
    from tutti.api import run as run
    from tutti.errors import TuttiError as TuttiError
    from tutti.storage.read.views import connect as connect
    from tutti.storage.read.views import query as query

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
