"""The type of a hostile program, and the names defined for each."""

from dataclasses import dataclass
from typing import Literal

from tests.sandbox.denied import denied_calls
from tutti.tasks.sandbox import Status

Check = Literal[
    "secret", "canary", "sockets", "victims", "processes", "time", "memory", "output", "host"
]


@dataclass(frozen=True)
class Hostile:
    """One program and its conditions."""

    name: str
    judged: tuple[Check, ...]
    """The checks that decide about it; all are made."""
    code: str
    says: str = "refused"
    """What its output must contain: the attack was made, and came to nothing."""
    ends: tuple[Status, ...] = ("ok",)
    seconds: float = 15.0
    """Its time limit. Short for those that never end; the others have time on a busy machine."""


PRELUDE = '''
import os, sys, time

def attempt(what, *given):
    """Do it: being refused is what we hope for, anything but a refusal is a broken program."""
    try:
        got = what(*given)
    except (OSError, MemoryError) as error:
        print("refused:", type(error).__name__, str(error)[:80], flush=True)
    else:
        print("ESCAPED:", repr(got)[:300], flush=True)

def system(name, *given):
    """A system call by its number, which the library's wrappers know nothing of."""
    import ctypes
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in given]
    library = ctypes.CDLL(None, use_errno=True)
    got = library.syscall(ctypes.c_long(NUMBERS[name]), *given)
    if got < 0:
        raise OSError(ctypes.get_errno(), name)
    return got
'''


def prelude(**known: object) -> str:
    """Return the first lines of every program: facts about the world outside, and two helpers."""
    names = "".join(f"{name} = {value!r}\n" for name, value in known.items())
    return f"NUMBERS = {denied_calls()!r}\n{names}{PRELUDE}"
