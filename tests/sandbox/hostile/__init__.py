"""More than 200 programs that mean harm, by what they go for, and how each is judged from outside.

Every program is judged by every check of `judge.Outside`; `judged` names those that decide about
it. What a program says counts for two things only: `says` must be in its output, so that a program
that never came to its attack does not count as contained, and "ESCAPED" must not.
"""

from tests.sandbox.hostile.case import Hostile
from tests.sandbox.hostile.files import FILES
from tests.sandbox.hostile.memory import MEMORY
from tests.sandbox.hostile.network import NETWORK
from tests.sandbox.hostile.others import OTHERS
from tests.sandbox.hostile.output import OUTPUT
from tests.sandbox.hostile.processes import PROCESSES
from tests.sandbox.hostile.reading import READING
from tests.sandbox.hostile.rights import RIGHTS
from tests.sandbox.hostile.time import TIME

GROUPS: dict[str, list[Hostile]] = {
    "processes": PROCESSES,
    "memory": MEMORY,
    "files": FILES,
    "reading": READING,
    "network": NETWORK,
    "others": OTHERS,
    "rights": RIGHTS,
    "output": OUTPUT,
    "time": TIME,
}
