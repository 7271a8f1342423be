"""Running programs that a model wrote: a program in, its output and exit status out.

A program runs under this Python's base interpreter, with the standard library only, no environment,
no input and an empty working folder that is deleted afterwards. `Sandbox` runs a program once;
`SandboxSession` runs it cell by cell and keeps its variables; `SandboxSessions` has one session per
program. `level_for_models` decides how well all of them are isolated.
"""

from tutti.tasks.sandbox.choice import CODE_PYTHON as CODE_PYTHON
from tutti.tasks.sandbox.choice import NO_WALLS as NO_WALLS
from tutti.tasks.sandbox.choice import WARNING as WARNING
from tutti.tasks.sandbox.choice import CodeRunner as CodeRunner
from tutti.tasks.sandbox.choice import NoSandbox as NoSandbox
from tutti.tasks.sandbox.choice import level_for_models as level_for_models
from tutti.tasks.sandbox.choice import missing_modules as missing_modules
from tutti.tasks.sandbox.choice import python_for_code as python_for_code
from tutti.tasks.sandbox.choice import unsafe_sandbox as unsafe_sandbox
from tutti.tasks.sandbox.run import Sandbox as Sandbox
from tutti.tasks.sandbox.run import TalkResult as TalkResult
from tutti.tasks.sandbox.session import SandboxSession as SandboxSession
from tutti.tasks.sandbox.session import SandboxSessions as SandboxSessions
from tutti.tasks.sandbox.values import SandboxLimits as SandboxLimits
from tutti.tasks.sandbox.values import SandboxPython as SandboxPython
from tutti.tasks.sandbox.values import SandboxResult as SandboxResult
from tutti.tasks.sandbox.values import SandboxUnavailable as SandboxUnavailable
from tutti.tasks.sandbox.values import Status as Status
