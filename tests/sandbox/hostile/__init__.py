"""More than 200 hostile programs by target, each judged from outside.

Every program is judged by every check of `judge.Outside`; `judged` names those that are decisive
for it. A program's output is used for two checks only: it must contain `says`, so that a program
that never reached its attack does not count as contained, and it must not contain "ESCAPED".
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
