"""Task synthesis: families propose tasks, duplicates are removed, gates decide; see `generate`."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.synthesis.counts import count_lines as count_lines
    from tutti.tasks.synthesis.counts import count_reasons as count_reasons
    from tutti.tasks.synthesis.counts import count_tasks as count_tasks
    from tutti.tasks.synthesis.domains.benchmark import domain_benchmark as domain_benchmark
    from tutti.tasks.synthesis.generate import POCKET_FAMILIES as POCKET_FAMILIES
    from tutti.tasks.synthesis.generate import TaskRequest as TaskRequest
    from tutti.tasks.synthesis.generate import find_made as find_made
    from tutti.tasks.synthesis.generate import read_conversations as read_conversations
    from tutti.tasks.synthesis.generate import read_tasks as read_tasks
    from tutti.tasks.synthesis.generate import synthesize as synthesize
    from tutti.tasks.synthesis.task import Task as Task

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
