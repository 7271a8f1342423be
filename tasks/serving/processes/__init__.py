"""Child processes that never outlive their owner, and ports of this machine."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.serving.errors import (
        ModelsEnvironmentMissing as ModelsEnvironmentMissing,
    )
    from tutti.tasks.serving.processes.process import TOKEN as TOKEN
    from tutti.tasks.serving.processes.process import Child as Child
    from tutti.tasks.serving.processes.process import answers as answers
    from tutti.tasks.serving.processes.process import claim_port as claim_port
    from tutti.tasks.serving.processes.process import end_marked as end_marked
    from tutti.tasks.serving.processes.process import reap_stale as reap_stale

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
